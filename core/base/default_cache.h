#pragma once

#include <filesystem>

namespace weft {

/// Returns the folder of Weft's caches: $XDG_CACHE_HOME/weft, else ~/.cache/weft, else a folder of
/// the user's in the temporary folder. It may not exist yet. Throws Error(kFailedPrecondition) if
/// another user controls the last one.
std::filesystem::path default_cache();

}  // namespace weft
