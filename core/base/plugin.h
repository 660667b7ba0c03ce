#pragma once

#include <string>
#include <vector>

namespace weft {

/// Returns the folders searched for Weft's own shared libraries, libweft_*.so, in this order: those
/// in WEFT_PLUGINS, lib/ beside the program's bin/, and the build folder.
std::vector<std::string> plugin_folders();

/// Loads `file` from the first plugin folder that contains it and returns its function `entry`. The
/// library stays loaded. Returns null if no folder contains the file. Throws
/// Error(kFailedPrecondition) if it cannot be loaded or lacks the function.
void* plugin_entry(const std::string& file, const char* entry);

}  // namespace weft
