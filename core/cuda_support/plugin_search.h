#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// Environment on which the search for plugins depends.
struct PluginEnvironment {
  std::filesystem::path executable;  ///< File of the running program.
  std::filesystem::path root = "/";  ///< Root of the file system; differs in tests only.
  /// Returns an environment variable; nullopt or "" if it is not set.
  std::function<std::optional<std::string>(const char* name)> variable;
};

/// Returns the places of this process.
PluginEnvironment plugin_places();

/// Folders to search, in order, and options from the environment.
struct PluginSearch {
  /// Folders of libweft_*.so: WEFT_PLUGINS, then lib/ beside the program's bin/.
  std::vector<std::filesystem::path> plugins;
  /// Folders of CUDA's libraries from WEFT_CUDA_LIBRARIES, searched before the dynamic loader's.
  std::vector<std::filesystem::path> configured_library_folders;
  /// Folders searched after the dynamic loader's: a CUDA Toolkit, and the `nvidia/*/lib` folders of
  /// Python installations, which PyTorch and pip packages such as nvidia-cudnn-cu13 create.
  std::vector<std::filesystem::path> default_library_folders;
  /// True if WEFT_CUDA_CHECK is set and not 0; see CudaDeviceOptions.
  bool check_every_op = false;
  /// False if WEFT_CUDA_GRAPHS is 0; see CudaDeviceOptions.
  bool graphs = true;
  /// False if WEFT_CUDA_MEASURE is 0; see CudaDeviceOptions.
  bool measure_products = false;
};

/// Returns the folders to search. `default_library_folders` contains existing folders only.
PluginSearch plugin_search(const PluginEnvironment& places);

}  // namespace weft
