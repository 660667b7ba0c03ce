#include "apps/selection/nearest.h"

#include <algorithm>

#include "core/base/check.h"

namespace weft::apps {
namespace {

constexpr std::size_t kQueryRows = 1024, kBaseRows = 16384;
/// Bases to fetch beyond the number wanted.
constexpr std::size_t kSpare = 4;

PointVectors part_of(const PointVectors& points, std::size_t first, std::size_t count) {
  const std::size_t rows = std::min(count, points.ids.size() - first);
  const std::size_t dimensions = points.vectors.dimensions;
  return {points.ids.subspan(first, rows),
          {points.vectors.values.subspan(first * dimensions, rows * dimensions), dimensions}};
}

/// Returns the largest difference between sums of the same products in different orders, for
/// vectors of length 1. Each number adds half a unit in the last place (Higham, "Accuracy and
/// stability of numerical algorithms", 3.1).
float rounding_of(std::size_t dimensions) { return 2 * 0x1p-24F * static_cast<float>(dimensions); }

/// List of neighbours of one query.
class Nearest {
 public:
  Nearest(const NeighbourRule& rule, std::vector<Neighbour>& list) : rule_(rule), list_(list) {
    narrow();
  }
  /// Returns true if a neighbour of this similarity might be kept, whatever its id.
  bool may_keep(std::uint16_t similarity) const { return similarity >= least_; }
  void offer(Neighbour neighbour) {
    if (!may_keep(neighbour.similarity)) return;
    list_.push_back(neighbour);
    if (list_.size() >= 4 * rule_.count) narrow();
  }
  void narrow() {
    keep_most_similar(list_, rule_.count);
    if (list_.size() == rule_.count)
      least_ =
          std::max(rule_.least(), std::ranges::min(list_, {}, &Neighbour::similarity).similarity);
  }

 private:
  const NeighbourRule& rule_;
  std::vector<Neighbour>& list_;
  std::uint16_t least_ = rule_.least();
};

std::uint64_t find_in_block(const VectorSearch& search, const NeighbourRule& rule,
                            const PointVectors& queries, const PointVectors& bases,
                            std::span<std::vector<Neighbour>> lists) {
  // Fetches one more, as the point itself may be found.
  const std::size_t fetch = std::min(rule.count + 1 + kSpare, bases.ids.size());
  std::vector<std::int64_t> rows(queries.ids.size() * fetch);
  std::vector<float> products(rows.size());
  search.top_k_products(queries.vectors, bases.vectors, fetch, rows, products);
  const float rounding = rounding_of(bases.vectors.dimensions);
  // Returns the largest cosine_of() that the library may round to `product`.
  const auto at_most = [&](float product) {
    return fraction_of(std::clamp(product + rounding, 0.0F, 1.0F));
  };
  std::uint64_t scans = 0;
  std::vector<Neighbour> before;
  for (std::size_t q = 0; q < queries.ids.size(); ++q) {
    before = lists[q];
    Nearest nearest(rule, lists[q]);
    const auto offer = [&](std::size_t row) {
      if (bases.ids[row] != queries.ids[q])
        nearest.offer({bases.ids[row], cosine_of(queries.vectors[q], bases.vectors[row])});
    };
    for (std::size_t i = q * fetch; i < (q + 1) * fetch; ++i) {
      if (rows[i] == VectorSearch::kNoRow || !nearest.may_keep(at_most(products[i]))) break;
      offer(static_cast<std::size_t>(rows[i]));
    }
    nearest.narrow();
    // Bases that were not fetched are at most as similar as the last fetched one.
    if (fetch == bases.ids.size() || !nearest.may_keep(at_most(products[(q + 1) * fetch - 1])))
      continue;
    ++scans;
    lists[q] = before;
    Nearest scan(rule, lists[q]);
    for (std::size_t row = 0; row < bases.ids.size(); ++row) {
      if (bases.ids[row] == queries.ids[q]) continue;
      scan.offer({bases.ids[row], cosine_of(queries.vectors[q], bases.vectors[row])});
    }
    scan.narrow();
  }
  return scans;
}

}  // namespace

std::uint64_t find_nearest(const VectorSearch& search, const NeighbourRule& rule,
                           const PointVectors& queries, const PointVectors& bases,
                           std::span<std::vector<Neighbour>> lists) {
  WEFT_CHECK(queries.ids.size() == queries.vectors.size() && lists.size() == queries.ids.size() &&
                 bases.ids.size() == bases.vectors.size() && rule.count > 0,
             "{} lists of {} queries, {} vectors", lists.size(), queries.ids.size(),
             queries.vectors.size());
  std::uint64_t scans = 0;
  for (std::size_t base = 0; base < bases.ids.size(); base += kBaseRows) {
    for (std::size_t query = 0; query < queries.ids.size(); query += kQueryRows) {
      const PointVectors part = part_of(queries, query, kQueryRows);
      scans += find_in_block(search, rule, part, part_of(bases, base, kBaseRows),
                             lists.subspan(query, part.ids.size()));
    }
  }
  return scans;
}

}  // namespace weft::apps
