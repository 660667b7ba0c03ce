#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "apps/vector_search/vector_search.h"
#include "core/base/check.h"

namespace weft::apps {
namespace {

/// Number of partial sums: one for each lane of a vector register.
constexpr std::size_t kLanes = 16;
/// Floats of a block of bases, which stays in the processor's cache while the queries pass over it.
constexpr std::size_t kBlockValues = std::size_t{64} << 10;

class PlainSearch final : public VectorSearch {
 public:
  std::string name() const override { return "a plain loop"; }

  void top_k_products(VectorRows queries, VectorRows bases, std::size_t count,
                      std::span<std::int64_t> rows, std::span<float> products) const override {
    WEFT_CHECK(rows.size() == queries.size() * count && products.size() == rows.size(),
               "{} rows, {} products of {} queries", rows.size(), products.size(), queries.size());
    using Hit = std::pair<float, std::int64_t>;
    // Heap order: the front is the least similar hit, and among equal ones the one of highest row.
    const auto above = [](const Hit& a, const Hit& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    };
    std::vector<std::vector<Hit>> heaps(queries.size());
    const std::size_t block = std::max<std::size_t>(1, kBlockValues / bases.dimensions);
    for (std::size_t first = 0; first < bases.size(); first += block) {
      const std::size_t past = std::min(first + block, bases.size());
      for (std::size_t q = 0; q < queries.size(); ++q) {
        std::vector<Hit>& heap = heaps[q];
        for (std::size_t b = first; b < past; ++b) {
          const Hit hit = {inner_product(queries[q], bases[b]), static_cast<std::int64_t>(b)};
          if (heap.size() == count) {
            if (!above(hit, heap.front())) continue;
            std::ranges::pop_heap(heap, above);
            heap.pop_back();
          }
          heap.push_back(hit);
          std::ranges::push_heap(heap, above);
        }
      }
    }
    for (std::size_t q = 0; q < queries.size(); ++q) {
      std::ranges::sort_heap(heaps[q], above);
      for (std::size_t i = 0; i < count; ++i) {
        const bool is_there = i < heaps[q].size();
        rows[q * count + i] = is_there ? heaps[q][i].second : kNoRow;
        products[q * count + i] = is_there ? heaps[q][i].first : 0;
      }
    }
  }
};

}  // namespace

float inner_product(std::span<const float> a, std::span<const float> b) {
  std::array<float, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  float rest = 0;
  for (; i < a.size(); ++i) rest += a[i] * b[i];
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0] + rest;
}

const VectorSearch& plain_search() {
  static const PlainSearch search;
  return search;
}

}  // namespace weft::apps
