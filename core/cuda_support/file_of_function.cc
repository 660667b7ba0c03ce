#include "core/cuda_support/file_of_function.h"

#include <dlfcn.h>

#include <filesystem>

namespace weft {

std::string file_of_function(const void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, ignored);
  return ignored ? info.dli_fname : file.string();
}

}  // namespace weft
