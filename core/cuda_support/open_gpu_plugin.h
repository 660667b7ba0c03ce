#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "core/base/plugin.h"
#include "core/cuda_support/plugin_search.h"

namespace weft {

/// Finds a plugin that uses NVIDIA's libraries, and loads the libraries that it needs. Returns its
/// path. Throws Error(kFailedPrecondition), which says what was not found where, and what to do.
/// Thread-safe.
std::filesystem::path load_libraries_of(std::string_view plugin_file, const PluginSearch& search);

/// Loads the plugin of an interface (see core/base/plugin.h) after the NVIDIA libraries that it
/// needs. Throws Error(kFailedPrecondition) like load_libraries_of() and open_plugin().
template <typename Plugin>
std::unique_ptr<Plugin> open_gpu_plugin(const PluginSearch& search) {
  return open_plugin<Plugin>(load_libraries_of(Plugin::kFile, search));
}

}  // namespace weft
