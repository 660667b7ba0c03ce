#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weft::apps {

/// Vectors, rows of `dimensions` numbers. A view.
struct VectorRows {
  std::span<const float> values;
  std::size_t dimensions = 1;

  std::size_t size() const { return values.size() / dimensions; }
  std::span<const float> operator[](std::size_t row) const {
    return values.subspan(row * dimensions, dimensions);
  }
};

/// The inner product, summed in an order that depends on the number of dimensions alone: the same
/// bits for (a, b) and (b, a), wherever it is computed.
float inner_product(std::span<const float> a, std::span<const float> b);

/// Finds vectors by comparing with all: what a library of linear algebra is for. Any thread.
class VectorSearch {
 public:
  /// In place of a row where there are fewer bases than were asked for.
  static constexpr std::int64_t kNone = -1;

  virtual ~VectorSearch() = default;
  /// "faiss, OpenBLAS 0.3.21 (Haswell)", for summaries.
  virtual std::string name() const = 0;
  /// Private memory that it takes at its first product and keeps, touched or not. Where a limit on
  /// data leaves less, it may wait for it for ever.
  virtual std::uint64_t private_bytes() const { return 0; }
  /// Of each query in turn the `count` rows of `bases` of the largest inner products, largest
  /// first, and these products, as the library rounds them; `rows` and `products` have room for
  /// `count` of each query. One thread. What it computes depends on its arguments alone, but may
  /// differ in the last bits where the same vectors stand in other blocks.
  virtual void largest(VectorRows queries, VectorRows bases, std::size_t count,
                       std::span<std::int64_t> rows, std::span<float> products) const = 0;

  /// Changes with what passes between program and plugin.
  static constexpr std::uint64_t kStamp = 2;
};

/// By inner_product() and a loop: an eighth as fast as a library.
const VectorSearch& plain_search();

/// Compares blocks with plain_search(): old OpenBLAS computes wrong on newer processors. "": they
/// agree; else how they differ.
std::string search_problem(const VectorSearch& search);

struct OpenedSearch {
  const VectorSearch* search;
  /// Why it is the plain one, for people; "": it is the library.
  std::string problem;
};

/// The library of libweft_faiss.so if it is there, has the memory that it takes and computes right,
/// else plain_search(). Opened when it is first asked for. Any thread.
const OpenedSearch& vector_search();

}  // namespace weft::apps
