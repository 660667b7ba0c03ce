#include "apps/vector_search/vector_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/base/philox.h"
#include "core/base/plugin.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

/// Bytes reserved for the caller beside the library: vectors and exchanges.
constexpr std::uint64_t kReservedBytes = 64 << 20;
constexpr const char* kFallbackNote = "neighbours are found by a plain loop, an eighth as fast";

/// Draws random floats in [-1, 1). They need not be the same on every machine.
std::vector<float> draw_vectors(std::size_t rows, std::size_t dimensions, std::uint64_t stream) {
  PhiloxStream random(7, stream);
  std::vector<float> values(rows * dimensions);
  for (float& value : values)
    value = 2 * uniform_float(static_cast<std::uint32_t>(random() >> 32)) - 1;
  return values;
}

OpenedSearch open_search() {
  try {
    // Stops OpenBLAS from starting a thread for each processor when it is opened. No other code of
    // Weft's programs sets environment variables, so no thread can read the array meanwhile.
    ::setenv("OPENBLAS_NUM_THREADS", "1", 0);
    const auto path = find_plugin(VectorSearch::kFile, plugin_folders());
    if (!path)
      return {&plain_search(),
              fmt::format("there is no {} in {}: {}. Build it where libfaiss-dev and "
                          "libopenblas-dev are, or set WEFT_PLUGINS to the folder that has it",
                          VectorSearch::kFile, folder_list(plugin_folders()), kFallbackNote)};
    // Never destroyed, as other threads may use it until the process ends.
    const VectorSearch* const library = open_plugin<VectorSearch>(*path).release();
    if (const auto left = available_data();
        left && *left < library->private_bytes() + kReservedBytes)
      return {
          &plain_search(),
          fmt::format(
              "{} takes {} of private memory, touched or not, and RLIMIT_DATA leaves {} "
              "for all: {}. Raise that limit (cluster.memory) by {}, or run where control groups "
              "can be made, which count what is touched",
              library->name(), format_bytes(library->private_bytes()), format_bytes(*left),
              kFallbackNote, format_bytes(library->private_bytes() + kReservedBytes - *left))};
    const std::string problem = verify_search(*library);
    if (problem.empty()) return {library, ""};
    return {&plain_search(),
            fmt::format("{} computes wrong here: {}; {}. OPENBLAS_CORETYPE=Haswell makes OpenBLAS "
                        "use the code for an older processor",
                        library->name(), problem, kFallbackNote)};
  } catch (const std::exception& error) {
    return {&plain_search(), fmt::format("{}: {}", error.what(), kFallbackNote)};
  }
}

}  // namespace

std::string verify_search(const VectorSearch& search) {
  struct BlockSizes {
    std::size_t queries, bases, dimensions, count;
  };
  // Covers whole and odd tiles, few and many queries, and fewer bases than `count`.
  constexpr std::array<BlockSizes, 5> kBlocks = {{{256, 2048, 64, 19},
                                                  {37, 1531, 100, 11},
                                                  {5, 300, 7, 4},
                                                  {70, 3, 16, 5},
                                                  {21, 257, 513, 1}}};
  std::uint64_t stream = 0;
  for (const auto& [queries, bases, dimensions, count] : kBlocks) {
    const std::vector<float> query_values = draw_vectors(queries, dimensions, ++stream);
    const std::vector<float> base_values = draw_vectors(bases, dimensions, ++stream);
    const VectorRows query_rows{query_values, dimensions}, base_rows{base_values, dimensions};
    std::vector<std::int64_t> rows(queries * count), right_rows(rows.size());
    std::vector<float> products(rows.size()), right(rows.size());
    search.top_k_products(query_rows, base_rows, count, rows, products);
    plain_search().top_k_products(query_rows, base_rows, count, right_rows, right);
    const float slack = 1e-6F * static_cast<float>(dimensions);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t query = i / count;
      if (i % count >= bases && rows[i] == VectorSearch::kNoRow) continue;
      if (rows[i] < 0 || rows[i] >= static_cast<std::int64_t>(bases))
        return fmt::format("of {} bases it gives row {}", bases, rows[i]);
      const float own = inner_product(query_rows[query], base_rows[rows[i]]);
      // The comparison is negated so that NaN fails.
      if (!(std::abs(products[i] - own) <= slack))
        return fmt::format("the product of query {} and base {}, of {} numbers, is {}, not {}",
                           query, rows[i], dimensions, products[i], own);
      if (!(std::abs(products[i] - right[i]) <= slack))
        return fmt::format("of query {} base {}, with {}, is left out; {} comes in its place",
                           query, right_rows[i], right[i], products[i]);
    }
  }
  return "";
}

const OpenedSearch& vector_search() {
  static const OpenedSearch opened = open_search();
  return opened;
}

}  // namespace weft::apps
