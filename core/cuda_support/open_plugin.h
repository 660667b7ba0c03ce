#pragma once

#include <string_view>

#include "core/cuda_support/plugin_search.h"

namespace weft {

/// Opens lib<name>.so, a plugin, after the libraries of NVIDIA that it needs, and gives the address
/// of its entry point `entry`. It stays open for as long as the process lives. Throws
/// Error(kFailedPrecondition) saying what was not found where, and what to do. Any thread.
void* open_plugin(std::string_view name, const char* entry, const PluginSearch& search);

}  // namespace weft
