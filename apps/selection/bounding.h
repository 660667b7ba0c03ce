#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/objective.h"

namespace weft::apps {

/// What bounding has found out about a point.
enum class PointFate : std::uint8_t { kOpen, kAccepted, kDiscarded };

/// Which edges count against a point as long as the neighbour is open (Böther et al., section 4).
struct EdgeSample {
  std::uint32_t thousandths = 1000;  ///< Of all edges; 1000: exact bounding.
  std::uint64_t seed = 0;
  /// 0: the same edges in every step. Else the number of the step, for which edges are drawn anew:
  /// that decides nearly every point in time, by luck.
  std::uint64_t step = 0;

  /// Of the edge as `point` sees it.
  bool has(PointId point, PointId neighbour) const;
};

/// The bounds of the points that one owner has, and their fates. A point adds at most what it adds
/// to the accepted points alone, and at least (exactly: in expectation over samples) what it adds
/// to these and all open neighbours. Sums are kept up to date by what neighbours' fates change, in
/// integers, so that they equal those made anew, in any order of arrival.
class PointBounds {
 public:
  /// `gains`: by row, what a point adds to nothing.
  PointBounds(const Objective& objective, std::vector<std::int64_t> gains);
  /// As they were when state() gave these bytes. Throws Error(kDataLoss) if they are no state.
  PointBounds(const Objective& objective, std::span<const std::byte> state);
  std::vector<std::byte> state() const;  ///< 17 bytes a row.

  std::size_t size() const { return gains_.size(); }
  PointFate fate(std::uint32_t row) const { return fates_[row]; }
  std::uint64_t num_open() const { return num_open_; }
  std::int64_t at_most(std::uint32_t row) const {
    return gains_[row] - objective_.similarity * accepted_[row];
  }
  std::int64_t at_least(std::uint32_t row) const {
    return at_most(row) - objective_.similarity * open_[row];
  }

  /// An open neighbour counts against the row, of a similarity s.
  void add_open(std::uint32_t row, std::uint16_t s) { open_[row] += s; }
  /// All open neighbours are to be added anew.
  void forget_open();
  /// A neighbour's fate is decided. `counted`: it has been added as an open one.
  void neighbour_decided(std::uint32_t row, std::uint16_t s, PointFate fate, bool counted);

  // Steps. Each gives the rows whose fate it has decided, ascending.
  std::vector<std::uint32_t> discard_below(std::int64_t threshold);
  std::vector<std::uint32_t> accept_above(std::int64_t threshold);
  std::vector<std::uint32_t> decide_all(PointFate fate);
  /// What one of these has decided before, from the same state.
  void decide_rows(std::span<const std::uint32_t> rows, PointFate fate);

 private:
  template <typename Decides>
  std::vector<std::uint32_t> decide(PointFate fate, const Decides& decides);

  Objective objective_;
  std::vector<std::int64_t> gains_;
  // Similarities to such neighbours, of which a point has at most 65535.
  std::vector<std::uint32_t> open_, accepted_;
  std::vector<PointFate> fates_;
  std::uint64_t num_open_ = 0;
};

/// In which order bounds are used, told by how much each step decides: shrink until that changes
/// nothing, grow until that changes nothing, all again until neither does. Shrinking discards what
/// adds at most less than the k-th largest of what points add at least; growing accepts what adds
/// at least more than the k-th largest of what points add at most. No best subset contradicts
/// either, if the sample is exact (swap argument; needs no monotonicity).
class BoundingLoop {
 public:
  enum class Step : std::uint8_t {
    kShrink,
    kGrow,
    kDiscardRest,  ///< Nothing more is to be chosen.
    kAcceptRest,   ///< All that is open is to be chosen.
    kDone,
  };

  /// `wanted` of `open` points are to be chosen.
  BoundingLoop(std::uint64_t open, std::uint64_t wanted);

  Step next() const { return next_; }
  /// Of that step.
  void decided(std::uint64_t points);
  std::uint64_t open() const { return open_; }
  std::uint64_t wanted() const { return wanted_; }
  /// Steps so far, from 1 in the first.
  int steps() const { return steps_; }

 private:
  std::uint64_t open_, wanted_;
  Step next_ = Step::kShrink;
  bool pass_changed_ = false;  ///< Since the last time that shrinking began.
  int steps_ = 1;
};

/// What is left to choose from after bounding.
struct BoundedPoints {
  std::vector<std::uint32_t> accepted;  ///< Rows, ascending.
  std::vector<std::uint32_t> open;      ///< Rows, ascending.
  std::vector<std::int64_t> gains;      ///< Of the open ones, beside the accepted.
  std::uint64_t wanted = 0;             ///< So many of the open ones are to be chosen.
  int steps = 0;
};

/// Bounds all points of a graph in memory. `fresh`: the sample is drawn anew in every step. Throws
/// Error(kInvalidArgument) unless 1 <= count <= points.
BoundedPoints bound_points(const PointGraph& graph, const Objective& objective, std::uint64_t count,
                           EdgeSample sample, bool fresh = false);

}  // namespace weft::apps
