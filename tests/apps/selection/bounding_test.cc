#include "apps/selection/bounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "apps/selection/kth_largest.h"
#include "core/base/error.h"
#include "tests/apps/selection/random_graph.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using test::gain_beside, test::random_graph;

/// Returns all best subsets of `count` points, each as a bit mask of rows.
std::vector<std::uint32_t> best_subsets(const PointGraph& graph, const Objective& objective,
                                        int count) {
  std::int64_t best = std::numeric_limits<std::int64_t>::min();
  std::vector<std::uint32_t> subsets;
  for (std::uint32_t bits = 0; bits < 1U << graph.size(); ++bits) {
    if (std::popcount(bits) != count) continue;
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < graph.size(); ++row)
      if ((bits >> row & 1) != 0) rows.push_back(row);
    const std::int64_t score = score_of(graph, objective, rows);
    if (score < best) continue;
    if (score > best) subsets.clear();
    best = score;
    subsets.push_back(bits);
  }
  return subsets;
}

TEST(BoundPoints, NeverContradictsABestSubset) {
  PhiloxStream random(3);
  std::size_t accepted = 0, discarded = 0;
  for (int round = 0; round < 1500; ++round) {
    SCOPED_TRACE(round);
    const Objective objective = Objective::of_alpha(100 + 100 * static_cast<int>(random.below(9)));
    const auto points = static_cast<std::uint32_t>(2 + random.below(10));
    const PointGraph graph = random_graph(random, points, static_cast<double>(random.below(5)),
                                          round % 3 == 0 ? 4 : 65536, objective);
    const int count = 1 + static_cast<int>(random.below(points));
    const BoundedPoints bounded = bound_points(graph, objective, count, {});
    EXPECT_EQ(bounded.accepted.size() + bounded.wanted, static_cast<std::size_t>(count));
    std::uint32_t in = 0, undecided = 0;
    for (const std::uint32_t row : bounded.accepted) in |= 1U << row;
    for (const std::uint32_t row : bounded.open) undecided |= 1U << row;
    for (const std::uint32_t best : best_subsets(graph, objective, count)) {
      // Ties were broken if no point is open: other best subsets may differ.
      if (bounded.open.empty()) continue;
      EXPECT_EQ(best & in, in);
      EXPECT_EQ(best & ~(in | undecided), 0U);
    }
    accepted += bounded.accepted.size();
    discarded += graph.size() - bounded.accepted.size() - bounded.open.size();
  }
  // Bounding decides many points.
  EXPECT_GT(accepted, 1000U);
  EXPECT_GT(discarded, 1000U);
}

/// Bounding by several owners of some rows each, as actors do it. Recomputes all bounds in each
/// step.
class Owners {
 public:
  Owners(const PointGraph& graph, const Objective& objective, EdgeSample sample, std::size_t owners)
      : graph_(graph), objective_(objective), sample_(sample), owners_(owners) {
    for (std::size_t owner = 0; owner < owners; ++owner) {
      std::vector<std::int64_t> gains;
      for (std::size_t row = owner; row < graph.size(); row += owners)
        gains.push_back(graph.gains[row]);
      bounds_.emplace_back(objective, std::move(gains));
    }
    for (std::uint32_t row = 0; row < graph.size(); ++row)
      each_edge(row, [&](std::uint32_t neighbour, std::uint16_t s) {
        if (sample.contains(graph.ids[row], graph.ids[neighbour])) of(row).add_open(at(row), s);
      });
  }

  PointState state_of(std::uint32_t row) const {
    return bounds_[row % owners_].state_of(row / owners_);
  }

  void run(std::uint64_t count) {
    BoundingLoop loop(graph_.size(), count);
    while (loop.next() != BoundingLoop::BoundingStep::kDone) {
      check_sums();
      std::vector<std::uint32_t> rows;
      const auto collect = [&](const auto& step) {
        for (std::size_t owner = 0; owner < owners_; ++owner)
          for (const std::uint32_t row : step(bounds_[owner]))
            rows.push_back(row * owners_ + owner);
      };
      switch (loop.next()) {
        case BoundingLoop::BoundingStep::kShrink: {
          const std::int64_t threshold = kth(loop.wanted(), true);
          collect([&](PointBounds& bounds) { return bounds.discard_below(threshold); });
          break;
        }
        case BoundingLoop::BoundingStep::kGrow: {
          const std::int64_t threshold = kth(loop.wanted(), false);
          collect([&](PointBounds& bounds) { return bounds.accept_above(threshold); });
          break;
        }
        case BoundingLoop::BoundingStep::kAcceptRest:
          collect([](PointBounds& bounds) { return bounds.decide_all(PointState::kAccepted); });
          break;
        default:
          collect([](PointBounds& bounds) { return bounds.decide_all(PointState::kDiscarded); });
      }
      // Records may arrive in any order.
      std::ranges::reverse(rows);
      for (const std::uint32_t row : rows)
        each_edge(row, [&](std::uint32_t neighbour, std::uint16_t s) {
          of(neighbour).neighbour_decided(at(neighbour), s, state_of(row),
                                          sample_.contains(graph_.ids[neighbour], graph_.ids[row]));
        });
      loop.report_decided(rows.size());
    }
  }

 private:
  PointBounds& of(std::uint32_t row) { return bounds_[row % owners_]; }
  std::uint32_t at(std::uint32_t row) const { return row / owners_; }
  template <typename Visit>
  void each_edge(std::uint32_t row, const Visit& visit) const {
    for (std::uint64_t edge = graph_.first[row]; edge < graph_.first[row + 1]; ++edge)
      visit(graph_.neighbours[edge], graph_.similarities[edge]);
  }
  void check_sums() {
    for (std::uint32_t row = 0; row < graph_.size(); ++row) {
      if (state_of(row) != PointState::kOpen) continue;
      std::int64_t most = graph_.gains[row], least = most;
      each_edge(row, [&](std::uint32_t neighbour, std::uint16_t s) {
        const PointState other = state_of(neighbour);
        const std::int64_t loss = objective_.redundancy_loss(s);
        if (other == PointState::kAccepted) most -= loss;
        if (other == PointState::kAccepted ||
            (other == PointState::kOpen &&
             sample_.contains(graph_.ids[row], graph_.ids[neighbour])))
          least -= loss;
      });
      ASSERT_EQ(of(row).at_most(at(row)), most);
      ASSERT_EQ(of(row).at_least(at(row)), least);
    }
  }
  std::int64_t kth(std::uint64_t k, bool least) {
    std::vector<std::int64_t> all;
    for (std::uint32_t row = 0; row < graph_.size(); ++row)
      if (state_of(row) == PointState::kOpen)
        all.push_back(least ? of(row).at_least(at(row)) : of(row).at_most(at(row)));
    std::ranges::sort(all, std::greater());
    return all[k - 1];
  }

  const PointGraph& graph_;
  const Objective objective_;
  const EdgeSample sample_;
  const std::size_t owners_;
  std::vector<PointBounds> bounds_;
};

TEST(PointBounds, OfSeveralOwnersEqualThoseOfOneAndThoseMadeAnew) {
  PhiloxStream random(4);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    const Objective objective = Objective::of_alpha(round % 2 == 0 ? 968 : 900);
    const auto points = static_cast<std::uint32_t>(2 + random.below(80));
    const PointGraph graph = random_graph(random, points, 6, 65536, objective);
    const std::uint64_t count = 1 + random.below(points);
    const EdgeSample sample{round % 3 == 0 ? 1000U : 300U, random.below(9)};
    Owners owners(graph, objective, sample, 1 + random.below(5));
    owners.run(count);
    const BoundedPoints bounded = bound_points(graph, objective, count, sample);
    for (std::uint32_t row = 0; row < points; ++row) {
      const PointState state =
          std::ranges::binary_search(bounded.accepted, row) ? PointState::kAccepted
          : std::ranges::binary_search(bounded.open, row)   ? PointState::kOpen
                                                            : PointState::kDiscarded;
      EXPECT_EQ(owners.state_of(row), state) << row;
    }
    // The gains of open points are reduced for each accepted neighbour.
    std::vector<bool> in(points, false);
    for (const std::uint32_t row : bounded.accepted) in[row] = true;
    for (std::size_t i = 0; i < bounded.open.size(); ++i)
      EXPECT_EQ(bounded.gains[i], gain_beside(graph, objective, bounded.open[i], in));
  }
}

TEST(BoundPoints, WithFreshSamplesEndsWithTheRightNumber) {
  PhiloxStream random(5);
  for (int round = 0; round < 30; ++round) {
    const Objective objective{30, 1};
    const PointGraph graph = random_graph(random, 60, 5, 65536, objective);
    const std::uint64_t count = 1 + random.below(60);
    const BoundedPoints bounded = bound_points(graph, objective, count, {300, 7}, true);
    EXPECT_EQ(bounded.accepted.size() + bounded.wanted, count);
    EXPECT_LE(bounded.wanted, bounded.open.size());
  }
}

TEST(EdgeSample, HasItsShareOfEdges) {
  const EdgeSample sample{300, 11};
  int has = 0, both = 0;
  for (PointId a = 0; a < 100; ++a)
    for (PointId b = 0; b < 100; ++b) {
      has += sample.contains(a, b) ? 1 : 0;
      both += sample.contains(a, b) && sample.contains(b, a) && a != b ? 1 : 0;
    }
  EXPECT_NEAR(has, 3000, 150);
  // Each end of an edge is sampled independently.
  EXPECT_NEAR(both, 900, 120);
}

TEST(BoundPoints, RefusesCountsThatCannotBe) {
  const PointGraph graph = make_point_graph({0, 1}, {1, 2}, {});
  EXPECT_THAT(
      [&] {
        bound_points(graph, {1, 1}, 0, {});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "0 of 2 points cannot be chosen"));
  EXPECT_THAT(
      [&] {
        bound_points(graph, {1, 1}, 3, {});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "3 of 2 points cannot be chosen"));
  EXPECT_EQ(bound_points(graph, {1, 1}, 1, {}).accepted, std::vector<std::uint32_t>{1});
  EXPECT_EQ(bound_points(graph, {1, 1}, 2, {}).accepted.size(), 2U);
}

}  // namespace
}  // namespace weft::apps
