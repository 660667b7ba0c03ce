#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// What the search for plugins depends on.
struct PluginPlaces {
  std::filesystem::path executable;  ///< The running program's file.
  std::filesystem::path root = "/";  ///< Of the file system; another one in tests.
  /// An environment variable; nothing or "" if it is not set.
  std::function<std::optional<std::string>(const char* name)> variable;
};

/// This process's.
PluginPlaces plugin_places();

/// Folders to look into, in order, and how to use what is there.
struct PluginSearch {
  /// Of libweft_*.so: WEFT_PLUGINS, then lib/ beside the program's bin/.
  std::vector<std::filesystem::path> plugins;
  /// Of CUDA's libraries: WEFT_CUDA_LIBRARIES. Before what the dynamic loader finds.
  std::vector<std::filesystem::path> asked;
  /// Behind what the dynamic loader finds: a CUDA Toolkit, and the `nvidia/*/lib` folders of Python
  /// installations, which come with PyTorch and pip packages such as nvidia-cudnn-cu13.
  std::vector<std::filesystem::path> usual;
  bool check_every_op = false;  ///< WEFT_CUDA_CHECK=1; see CudaDeviceOptions.
};

/// Only `usual` folders that exist are named.
PluginSearch plugin_search(const PluginPlaces& places);

}  // namespace weft
