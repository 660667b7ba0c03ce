#include "apps/parquet/parquet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/plugin.h"

namespace weft::apps {
namespace {

constexpr const char* kFile = "libweft_parquet.so";

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
    const auto entry = reinterpret_cast<const ParquetLibrary* (*)(std::uint64_t)>(
        plugin_entry(kFile, "weft_parquet_plugin"));
    if (entry == nullptr)
      return {nullptr, fmt::format("there is no {} in {}: run apps/install_arrow, then build anew "
                                   "(cmake --preset release && cmake --build build), or save "
                                   "vectors as .npy or .safetensors",
                                   kFile, fmt::join(plugin_folders(), ", "))};
    const ParquetLibrary* const library = entry(ParquetLibrary::kInterfaceVersion);
    if (library == nullptr)
      return {nullptr,
              fmt::format("{} was built from another version than this program; build both again",
                          kFile)};
    return {library};
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
