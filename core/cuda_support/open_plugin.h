#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/cuda_support/plugin_search.h"

namespace weft {

/// Loads the plugin lib<name>.so, after the NVIDIA libraries that it needs, and returns the address
/// of its function `entry`. The plugin stays loaded. Throws Error(kFailedPrecondition), which says
/// what was not found where, and what to do. Thread-safe.
void* open_plugin(std::string_view name, const char* entry, const PluginSearch& search);

/// Loads the plugin of an interface, which defines
///   kLibrary   "weft_cuda", for libweft_cuda.so
///   kEntry     the entry point, `extern "C" Plugin* weft_cuda_plugin(std::uint64_t stamp)`. It
///              returns a plugin owned by the caller, or null if the stamps differ, as plugin and
///              caller were built from different sources.
///   stamp()    see plugin_stamp()
/// Throws Error(kFailedPrecondition) like the function above, or if the stamps differ. Thread-safe.
template <typename Plugin>
std::unique_ptr<Plugin> open_plugin(const PluginSearch& search) {
  auto* const entry = reinterpret_cast<Plugin* (*)(std::uint64_t)>(
      open_plugin(Plugin::kLibrary, Plugin::kEntry, search));
  std::unique_ptr<Plugin> plugin(entry(Plugin::stamp()));
  if (plugin == nullptr) {
    throw_error(ErrorCode::kFailedPrecondition,
                "lib{}.so and this program are from different builds: build both again",
                Plugin::kLibrary);
  }
  return plugin;
}

}  // namespace weft
