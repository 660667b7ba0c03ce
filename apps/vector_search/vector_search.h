#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/plugin_stamp.h"

namespace weft::apps {

/// View of row-major vectors, each of `dimensions` floats.
struct VectorRows {
  std::span<const float> values;
  std::size_t dimensions = 1;

  std::size_t size() const { return values.size() / dimensions; }
  std::span<const float> operator[](std::size_t row) const {
    return values.subspan(row * dimensions, dimensions);
  }
};

/// Returns the inner product. The summation order depends on the number of dimensions alone, so
/// that (a, b) and (b, a) give the same bits on every machine.
float inner_product(std::span<const float> a, std::span<const float> b);

/// Exhaustive search for the vectors of largest inner product. Callable from any thread.
class VectorSearch {
 public:
  /// Row number that fills the results of a query if there are fewer than `count` bases.
  static constexpr std::int64_t kNoRow = -1;

  virtual ~VectorSearch() = default;
  /// Returns the library's name and version for summaries: "faiss, OpenBLAS 0.3.21 (Haswell)".
  virtual std::string name() const = 0;
  /// Bytes of private memory that the library allocates at its first product and never frees,
  /// touched or not. If RLIMIT_DATA leaves less, the library may retry the allocation forever.
  virtual std::uint64_t private_bytes() const { return 0; }
  /// Finds, for each query, the `count` rows of `bases` with the largest inner products. Writes
  /// rows and products in descending order of product, `count` entries a query. Runs on one thread.
  /// The result depends on the arguments alone. Products are rounded by the library: their last
  /// bits may differ if the same vectors are passed in other blocks.
  virtual void top_k_products(VectorRows queries, VectorRows bases, std::size_t count,
                              std::span<std::int64_t> rows, std::span<float> products) const = 0;

  // Arguments of open_plugin().
  static constexpr const char* kFile = "libweft_faiss.so";
  static constexpr const char* kEntry = "weft_faiss_plugin";
  static constexpr std::uint64_t stamp() { return plugin_stamp(3, {sizeof(VectorRows)}); }
};

/// Returns a search that loops over inner_product(): an eighth of the speed of a library.
const VectorSearch& plain_search();

/// Compares `search` with plain_search() on sample blocks, as old OpenBLAS versions compute wrong
/// results on newer processors. Returns "" if they agree, else a description of the difference.
std::string verify_search(const VectorSearch& search);

struct OpenedSearch {
  const VectorSearch* search;
  /// Reason for the fallback to plain_search(), for users. "" if the library is used.
  std::string problem;
};

/// Returns the library of libweft_faiss.so, opened at the first call. Falls back to plain_search()
/// if the file does not exist, its memory exceeds RLIMIT_DATA, or it computes wrong results.
/// Callable from any thread.
const OpenedSearch& vector_search();

}  // namespace weft::apps
