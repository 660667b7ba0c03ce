#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/cuda_support/plugin_search.h"

namespace weft {

/// Opens lib<name>.so, a plugin, after the libraries of NVIDIA that it needs, and gives the address
/// of its entry point `entry`. It stays open for as long as the process lives. Throws
/// Error(kFailedPrecondition) saying what was not found where, and what to do. Any thread.
void* open_plugin(std::string_view name, const char* entry, const PluginSearch& search);

/// Opens the plugin of an interface, which says of itself
///   kLibrary   "weft_cuda", of libweft_cuda.so
///   kEntry     its one entry point, `extern "C" Plugin* weft_cuda_plugin(std::uint64_t stamp)`: a
///              plugin that the caller owns, or null if it was built from other sources than the
///              caller
///   stamp()    by which that is told, see plugin_stamp()
/// Throws Error(kFailedPrecondition) as above, or if the plugin was built from other sources. Any
/// thread.
template <typename Plugin>
std::unique_ptr<Plugin> open_plugin(const PluginSearch& search) {
  auto* const entry = reinterpret_cast<Plugin* (*)(std::uint64_t)>(
      open_plugin(Plugin::kLibrary, Plugin::kEntry, search));
  std::unique_ptr<Plugin> plugin(entry(Plugin::stamp()));
  if (plugin == nullptr) {
    throw_error(ErrorCode::kFailedPrecondition,
                "lib{}.so was built from other sources than this program: build both anew",
                Plugin::kLibrary);
  }
  return plugin;
}

}  // namespace weft
