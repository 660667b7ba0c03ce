#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace weft {

/// Splits a list of folders, such as the value of PATH, at its colons. Skips empty entries.
std::vector<std::filesystem::path> split_folders(std::string_view list);

/// Returns the folders separated by ", ", for messages.
std::string folder_list(const std::vector<std::filesystem::path>& folders);

/// Returns folders of Weft's own shared libraries, libweft_*.so, in the order of search: those in
/// `configured`, the value of WEFT_PLUGINS, then lib/ beside the bin/ of `executable`, unless that
/// is empty.
std::vector<std::filesystem::path> plugin_folders(std::string_view configured,
                                                  const std::filesystem::path& executable);
/// Returns the folders to search in this process: those above, then the build folder.
std::vector<std::filesystem::path> plugin_folders();

/// Returns the path of `file` in the first folder that contains it; nullopt if none does.
std::optional<std::filesystem::path> find_plugin(std::string_view file,
                                                 const std::vector<std::filesystem::path>& folders);

/// Loads the shared library `plugin` and returns its function `name`. The library stays loaded.
/// Throws Error(kFailedPrecondition) if it cannot be loaded or lacks the function. Thread-safe.
void* plugin_function(const std::filesystem::path& plugin, const char* name);

/// Loads `path`, which contains the plugin of an interface. The interface defines
///   kFile      "libweft_tls.so"
///   kEntry     name of the entry point, `extern "C" Plugin* weft_tls_plugin(std::uint64_t stamp)`.
///              It returns a plugin that the caller owns, or null if `stamp` is not its own
///   stamp()    see plugin_stamp()
/// Throws Error(kFailedPrecondition) like plugin_function(), or if plugin and program were built
/// from different sources. Thread-safe.
template <typename Plugin>
std::unique_ptr<Plugin> open_plugin(const std::filesystem::path& path) {
  auto* const entry =
      reinterpret_cast<Plugin* (*)(std::uint64_t)>(plugin_function(path, Plugin::kEntry));
  std::unique_ptr<Plugin> plugin(entry(Plugin::stamp()));
  if (plugin == nullptr)
    throw_error(ErrorCode::kFailedPrecondition,
                "{} and this program are from different builds: build both again", path.string());
  return plugin;
}

}  // namespace weft
