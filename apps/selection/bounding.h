#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/objective.h"

namespace weft::apps {

/// State of a point during bounding.
enum class PointState : std::uint8_t { kOpen, kAccepted, kDiscarded };

/// Edges that lower a point's bound while the neighbour is open (Böther et al., section 4).
struct EdgeSample {
  std::uint32_t thousandths = 1000;  ///< Share of all edges. 1000: exact bounding.
  std::uint64_t seed = 0;
  /// 0 to use the same edges in every step. Otherwise the step's number, for which edges are drawn
  /// afresh: that decides nearly every point eventually, by chance.
  std::uint64_t step = 0;

  /// Returns true if the sample has the edge, as seen from `point`.
  bool contains(PointId point, PointId neighbour) const;
};

/// Bounds and states of the points of one owner. The upper bound is a point's gain beside the
/// accepted points. The lower bound is its gain beside these and all open neighbours (in
/// expectation, if edges are sampled). Sums are integers that neighbours' decisions update, so they
/// equal sums computed afresh, in any order of arrival.
class PointBounds {
 public:
  /// `gains`: by row, the gain of choosing the point when nothing is chosen.
  PointBounds(const Objective& objective, std::vector<std::int64_t> gains);
  /// Restores the bounds from state(). Throws Error(kDataLoss) if the bytes are invalid.
  PointBounds(const Objective& objective, std::span<const std::byte> state);
  std::vector<std::byte> state() const;  ///< Serialized bounds, 17 bytes a row.

  std::size_t size() const { return gains_.size(); }
  PointState state_of(std::uint32_t row) const { return states_[row]; }
  std::uint64_t num_open() const { return num_open_; }
  std::int64_t at_most(std::uint32_t row) const {
    return gains_[row] - objective_.similarity * accepted_[row];
  }
  std::int64_t at_least(std::uint32_t row) const {
    return at_most(row) - objective_.similarity * open_[row];
  }

  /// Counts an open neighbour of similarity `s` against the row.
  void add_open(std::uint32_t row, std::uint16_t s) { open_[row] += s; }
  /// Removes all open neighbours, which the caller then adds again.
  void clear_open();
  /// Updates a row for a decided neighbour. `counted` is true if add_open() was called for it.
  void neighbour_decided(std::uint32_t row, std::uint16_t s, PointState new_state, bool counted);

  // Steps. Each returns the decided rows in ascending order.
  std::vector<std::uint32_t> discard_below(std::int64_t threshold);
  std::vector<std::uint32_t> accept_above(std::int64_t threshold);
  std::vector<std::uint32_t> decide_all(PointState new_state);
  /// Applies the result of one of these steps, computed earlier from the same state.
  void decide_rows(std::span<const std::uint32_t> rows, PointState new_state);

 private:
  template <typename Decides>
  std::vector<std::uint32_t> decide(PointState new_state, const Decides& decides);

  Objective objective_;
  std::vector<std::int64_t> gains_;
  // Sums of similarities to neighbours of that state. A point has at most 65535 neighbours.
  std::vector<std::uint32_t> open_, accepted_;
  std::vector<PointState> states_;
  std::uint64_t num_open_ = 0;
};

/// Order of the steps of bounding, which follows from the number of points that each step decides.
/// Shrinks until nothing changes, then grows until nothing changes, and repeats until neither does.
/// With k points wanted, shrinking discards points whose at_most() is below the k-th largest
/// at_least(). Growing accepts points whose at_least() is above the k-th largest at_most(). With
/// exact bounding, no optimal subset contradicts either (swap argument, which does not need
/// monotonicity).
class BoundingLoop {
 public:
  enum class BoundingStep : std::uint8_t {
    kShrink,
    kGrow,
    kDiscardRest,  ///< No further point is wanted.
    kAcceptRest,   ///< All open points are wanted.
    kDone,
  };

  /// Starts with `open` points, of which `wanted` are to be chosen.
  BoundingLoop(std::uint64_t open, std::uint64_t wanted);

  BoundingStep next() const { return next_; }
  /// Reports the number of points that the step decided.
  void report_decided(std::uint64_t points);
  std::uint64_t open() const { return open_; }
  std::uint64_t wanted() const { return wanted_; }
  /// Returns the number of the current step, from 1.
  int steps() const { return steps_; }

 private:
  std::uint64_t open_, wanted_;
  BoundingStep next_ = BoundingStep::kShrink;
  bool pass_changed_ = false;  ///< True if a step has decided points since shrinking last began.
  int steps_ = 1;
};

/// Result of bounding, from which the rounds continue.
struct BoundedPoints {
  std::vector<std::uint32_t> accepted;  ///< Ascending rows.
  std::vector<std::uint32_t> open;      ///< Ascending rows.
  std::vector<std::int64_t> gains;      ///< Gains of the open points beside the accepted ones.
  std::uint64_t wanted = 0;             ///< Number of open points to choose.
  int steps = 0;
};

/// Bounds all points of a graph in memory. `resample_edges` draws the sample afresh in every step.
/// Throws Error(kInvalidArgument) unless 1 <= count <= points.
BoundedPoints bound_points(const PointGraph& graph, const Objective& objective, std::uint64_t count,
                           EdgeSample sample, bool resample_edges = false);

}  // namespace weft::apps
