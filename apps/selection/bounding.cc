#include "apps/selection/bounding.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/selection/kth_largest.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "core/codec/bytes.h"

namespace weft::apps {
namespace {

/// Returns the k-th largest value of a bound over the open points.
template <typename BoundOf>
std::int64_t kth_bound(const PointBounds& bounds, std::uint64_t k, const BoundOf& bound_of) {
  KthLargest search(k);
  while (!search.is_found()) {
    KthLargest::Counts counts(KthLargest::kBins, 0);
    for (std::uint32_t row = 0; row < bounds.size(); ++row) {
      if (bounds.state_of(row) != PointState::kOpen) continue;
      if (const auto bin = search.bin_of(bound_of(row))) ++counts[*bin];
    }
    search.end_pass(counts);
  }
  return search.value();
}

}  // namespace

bool EdgeSample::contains(PointId point, PointId neighbour) const {
  // Purpose 1 of the hash draws edges; 0 breaks ties.
  const std::uint64_t hash = point_hash(neighbour, point_hash(point, seed, 1), step);
  return draw_below(1000, hash) < thousandths;
}

PointBounds::PointBounds(const Objective& objective, std::vector<std::int64_t> gains)
    : objective_(objective),
      gains_(std::move(gains)),
      open_(gains_.size(), 0),
      accepted_(gains_.size(), 0),
      states_(gains_.size(), PointState::kOpen),
      num_open_(gains_.size()) {}

PointBounds::PointBounds(const Objective& objective, std::span<const std::byte> state)
    : objective_(objective) {
  ByteReader reader(state);
  const auto rows = reader.read<std::uint32_t>();
  const auto read_into = [&](auto& values) {
    values.resize(rows);
    const auto bytes = reader.read_bytes(std::as_bytes(std::span(values)).size());
    if (rows > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  };
  if (reader.remaining() != std::size_t{17} * rows) reader.fail("it is no state of bounds");
  read_into(gains_);
  read_into(open_);
  read_into(accepted_);
  read_into(states_);
  for (const PointState& row_state : states_) {
    if (row_state > PointState::kDiscarded) reader.fail("it is no state of bounds");
    if (row_state == PointState::kOpen) ++num_open_;
  }
}

std::vector<std::byte> PointBounds::state() const {
  ByteWriter writer(4 + 17 * size());
  writer.write<std::uint32_t>(size());
  writer.write_bytes(std::as_bytes(std::span(gains_)));
  writer.write_bytes(std::as_bytes(std::span(open_)));
  writer.write_bytes(std::as_bytes(std::span(accepted_)));
  writer.write_bytes(std::as_bytes(std::span(states_)));
  return std::move(writer).take();
}

void PointBounds::clear_open() { std::ranges::fill(open_, 0); }

void PointBounds::neighbour_decided(std::uint32_t row, std::uint16_t s, PointState new_state,
                                    bool counted) {
  if (counted) open_[row] -= s;
  if (new_state == PointState::kAccepted) accepted_[row] += s;
}

template <typename Decides>
std::vector<std::uint32_t> PointBounds::decide(PointState new_state, const Decides& decides) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < size(); ++row) {
    if (states_[row] != PointState::kOpen || !decides(row)) continue;
    states_[row] = new_state;
    rows.push_back(row);
  }
  num_open_ -= rows.size();
  return rows;
}

std::vector<std::uint32_t> PointBounds::discard_below(std::int64_t threshold) {
  return decide(PointState::kDiscarded,
                [&](std::uint32_t row) { return at_most(row) < threshold; });
}

std::vector<std::uint32_t> PointBounds::accept_above(std::int64_t threshold) {
  return decide(PointState::kAccepted,
                [&](std::uint32_t row) { return at_least(row) > threshold; });
}

std::vector<std::uint32_t> PointBounds::decide_all(PointState new_state) {
  return decide(new_state, [](std::uint32_t) { return true; });
}

void PointBounds::decide_rows(std::span<const std::uint32_t> rows, PointState new_state) {
  for (const std::uint32_t row : rows) states_.at(row) = new_state;
  num_open_ -= rows.size();
}

BoundingLoop::BoundingLoop(std::uint64_t open, std::uint64_t wanted)
    : open_(open), wanted_(wanted) {
  WEFT_CHECK(wanted <= open, "{} of {}", wanted, open);
  if (wanted_ == 0) next_ = BoundingStep::kDiscardRest;
  else if (open_ == wanted_) next_ = BoundingStep::kAcceptRest;
}

void BoundingLoop::report_decided(std::uint64_t points) {
  const BoundingStep step = next_;
  open_ -= points;
  if (step == BoundingStep::kGrow || step == BoundingStep::kAcceptRest) wanted_ -= points;
  WEFT_CHECK(wanted_ <= open_, "{} of {}", wanted_, open_);
  ++steps_;
  if (open_ == 0) {
    next_ = BoundingStep::kDone;
  } else if (wanted_ == 0) {
    next_ = BoundingStep::kDiscardRest;
  } else if (open_ == wanted_) {
    next_ = BoundingStep::kAcceptRest;
  } else if (points > 0) {
    pass_changed_ = true;
  } else if (step == BoundingStep::kShrink) {
    next_ = BoundingStep::kGrow;
  } else {
    next_ = pass_changed_ ? BoundingStep::kShrink : BoundingStep::kDone;
    pass_changed_ = false;
  }
}

BoundedPoints bound_points(const PointGraph& graph, const Objective& objective, std::uint64_t count,
                           EdgeSample sample, bool resample_edges) {
  if (count < 1 || count > graph.size())
    throw_error(ErrorCode::kInvalidArgument,
                "{} of {} points cannot be chosen; choose from 1 to all of them", count,
                graph.size());
  PointBounds bounds(objective, graph.gains);
  BoundingLoop loop(graph.size(), count);
  const auto for_each_edge = [&](std::uint32_t row, const auto& visit) {
    for (std::uint64_t edge = graph.first[row]; edge < graph.first[row + 1]; ++edge)
      visit(graph.neighbours[edge], graph.similarities[edge]);
  };
  const auto has = [&](std::uint32_t row, std::uint32_t neighbour) {
    return sample.contains(graph.ids[row], graph.ids[neighbour]);
  };
  const auto draw = [&] {
    bounds.clear_open();
    if (resample_edges) sample.step = loop.steps();
    for (std::uint32_t row = 0; row < graph.size(); ++row) {
      for_each_edge(row, [&](std::uint32_t neighbour, std::uint16_t s) {
        if (bounds.state_of(neighbour) == PointState::kOpen && has(row, neighbour))
          bounds.add_open(row, s);
      });
    }
  };
  draw();
  for (; loop.next() != BoundingLoop::BoundingStep::kDone;) {
    std::vector<std::uint32_t> rows;
    switch (loop.next()) {
      case BoundingLoop::BoundingStep::kShrink:
        rows = bounds.discard_below(kth_bound(
            bounds, loop.wanted(), [&](std::uint32_t row) { return bounds.at_least(row); }));
        break;
      case BoundingLoop::BoundingStep::kGrow:
        rows = bounds.accept_above(kth_bound(
            bounds, loop.wanted(), [&](std::uint32_t row) { return bounds.at_most(row); }));
        break;
      case BoundingLoop::BoundingStep::kAcceptRest:
        rows = bounds.decide_all(PointState::kAccepted);
        break;
      default: rows = bounds.decide_all(PointState::kDiscarded); break;
    }
    for (const std::uint32_t row : rows) {
      for_each_edge(row, [&](std::uint32_t neighbour, std::uint16_t s) {
        bounds.neighbour_decided(neighbour, s, bounds.state_of(row), has(neighbour, row));
      });
    }
    loop.report_decided(rows.size());
    if (resample_edges) draw();
  }
  BoundedPoints result;
  result.wanted = loop.wanted();
  result.steps = loop.steps() - 1;
  for (std::uint32_t row = 0; row < graph.size(); ++row) {
    if (bounds.state_of(row) == PointState::kAccepted) result.accepted.push_back(row);
    if (bounds.state_of(row) != PointState::kOpen) continue;
    result.open.push_back(row);
    result.gains.push_back(bounds.at_most(row));
  }
  return result;
}

}  // namespace weft::apps
