#pragma once

#include <filesystem>

namespace weft::actors {

/// Returns $XDG_STATE_HOME/weft, or ~/.local/state/weft; if neither is an absolute path (a service,
/// a bare container), /tmp/weft-UID. That must be this user's alone: else throws
/// Error(kFailedPrecondition) that says what to set.
std::filesystem::path user_state_directory();
/// Returns this user's folder for the hashes of binary_sha256(); empty if it cannot be made.
std::filesystem::path hash_directory();

}  // namespace weft::actors
