#pragma once

#include <string>
#include <vector>

namespace weft {

/// Folders where Weft's own shared libraries, libweft_*.so, may be: those of WEFT_PLUGINS, lib/
/// beside the program's bin/, and where they were built. In this order.
std::vector<std::string> plugin_folders();

/// Opens `file` in the first of these folders that has it, for as long as the process lives, and
/// gives its function `entry`; null: none has it. Throws Error(kFailedPrecondition) if it cannot be
/// opened, or is another library.
void* plugin_entry(const std::string& file, const char* entry);

}  // namespace weft
