#include "core/cuda_support/open_gpu_plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/base/error.h"
#include "core/cuda_support/internal/needed_libraries.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// NVIDIA library, by the start of its file name, and the pip package that contains it.
struct Product {
  std::string_view prefix;
  std::string_view package;
};
constexpr std::array<Product, 6> kProducts = {{{"libcudart.so", "nvidia-cuda-runtime"},
                                               {"libcublas", "nvidia-cublas"},
                                               {"libcudnn", "nvidia-cudnn-cu13"},
                                               {"libnccl.so", "nvidia-nccl-cu13"},
                                               {"libnvrtc.so", "nvidia-cuda-nvrtc"},
                                               {"libnvJitLink.so", "nvidia-nvjitlink"}}};

const Product* product_of(std::string_view library) {
  const auto found = std::ranges::find_if(
      kProducts, [&](const Product& product) { return library.starts_with(product.prefix); });
  return found == kProducts.end() ? nullptr : &*found;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool open_file(const fs::path& path, std::string& failure) {
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) != nullptr) return true;
  failure = dlerror();
  return false;
}

/// Loads `library` from the first place that has it. Returns "" on success, else the reason.
std::string open_library(const std::string& library, const PluginSearch& search) {
  std::string unreadable;  // error of a file that exists but cannot be loaded
  std::string failure;
  const auto open_in = [&](const std::vector<fs::path>& folders) {
    for (const fs::path& folder : folders) {
      if (!is_there(folder / library)) continue;
      if (open_file(folder / library, failure)) return true;
      unreadable = failure;
    }
    return false;
  };
  if (open_in(search.configured_library_folders)) return {};
  if (open_file(library, failure)) return {};
  if (failure.find("cannot open shared object file") == std::string::npos) unreadable = failure;
  if (open_in(search.default_library_folders)) return {};
  if (!unreadable.empty()) return fmt::format("{} cannot be opened: {}", library, unreadable);
  return fmt::format(
      "{} was not found: {}, the dynamic loader does not know it, and it is not in {}", library,
      search.configured_library_folders.empty()
          ? "WEFT_CUDA_LIBRARIES is not set"
          : "not in WEFT_CUDA_LIBRARIES (" + folder_list(search.configured_library_folders) + ")",
      search.default_library_folders.empty()
          ? "a CUDA Toolkit or a Python installation, as there are none here"
          : folder_list(search.default_library_folders));
}

}  // namespace

fs::path load_libraries_of(std::string_view plugin_file, const PluginSearch& search) {
  const std::optional<fs::path> plugin = find_plugin(plugin_file, search.plugins);
  if (!plugin) {
    throw_error(ErrorCode::kFailedPrecondition,
                "this Weft was built without CUDA: there is no {} in {}. Build it where nvcc 12.8 "
                "or later, cuBLASLt, cuDNN 9 and NCCL are, or set WEFT_PLUGINS to the folder of a "
                "built one",
                plugin_file, folder_list(search.plugins));
  }
  for (const std::string& library : needed_libraries(*plugin)) {
    const Product* const product = product_of(library);
    if (product == nullptr) continue;
    if (const std::string why = open_library(library, search); !why.empty()) {
      throw_error(ErrorCode::kFailedPrecondition,
                  "{}. Install it (`pip install {}`, or NVIDIA's own package), or set "
                  "WEFT_CUDA_LIBRARIES to the folder that has it",
                  why, product->package);
    }
  }
  return *plugin;
}

}  // namespace weft
