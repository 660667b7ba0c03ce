#include "apps/parquet/parquet.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/plugin.h"

namespace weft::apps {
namespace {

struct OpenedLibrary {
  const ParquetLibrary* library = nullptr;
  std::string problem = {};
};

OpenedLibrary open_library() {
  try {
    // Arrow's default memory pool would reserve 1 GiB, which counts against a memory limit. No
    // other code of Weft's programs sets environment variables, so no thread can read them
    // meanwhile.
    ::setenv("ARROW_DEFAULT_MEMORY_POOL", "system", 0);
    const auto path = find_plugin(ParquetLibrary::kFile, plugin_folders());
    if (!path)
      return {nullptr, fmt::format("there is no {} in {}: run apps/install_arrow, then build anew "
                                   "(cmake --preset release && cmake --build build), or save "
                                   "vectors as .npy or .safetensors",
                                   ParquetLibrary::kFile, folder_list(plugin_folders()))};
    return {open_plugin<ParquetLibrary>(*path).release()};
  } catch (const std::exception& error) {
    return {nullptr, fmt::format("{}; run apps/install_arrow, then build anew", error.what())};
  }
}

const OpenedLibrary& opened_library() {
  static const OpenedLibrary opened = open_library();
  return opened;
}

}  // namespace

const ParquetLibrary& parquet_library() {
  if (opened_library().library == nullptr)
    throw_error(ErrorCode::kFailedPrecondition, "Parquet files cannot be read here: {}",
                opened_library().problem);
  return *opened_library().library;
}

std::string parquet_problem() { return opened_library().problem; }

}  // namespace weft::apps
