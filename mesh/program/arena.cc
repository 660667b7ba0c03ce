#include "mesh/program/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

#include "core/base/error.h"
#include "core/base/units.h"

namespace weft::mesh {
namespace {

/// Set of occupied offsets, as a union of intervals.
class TakenBytes final {
 public:
  bool empty() const { return intervals_.empty(); }

  void add(std::uint64_t begin, std::uint64_t end) {
    // Merge the new interval with all intervals that overlap or touch it.
    const auto first = std::ranges::lower_bound(intervals_, begin, {}, &TakenInterval::end);
    const auto past =
        std::upper_bound(first, intervals_.end(), end,
                         [](std::uint64_t at, const TakenInterval& i) { return at < i.begin; });
    if (first == past) {
      intervals_.insert(first, {begin, end});
      return;
    }
    first->begin = std::min(first->begin, begin);
    first->end = std::max(std::prev(past)->end, end);
    intervals_.erase(first + 1, past);
  }

  /// Returns the lowest offset >= `from` at which `bytes` bytes are free.
  std::uint64_t first_free(std::uint64_t from, std::uint64_t bytes) const {
    auto at = std::ranges::upper_bound(intervals_, from, {}, &TakenInterval::end);
    for (; at != intervals_.end() && at->begin < from + bytes; ++at) from = at->end;
    return from;
  }

 private:
  struct TakenInterval {
    std::uint64_t begin = 0, end = 0;
  };
  std::vector<TakenInterval> intervals_;  // Disjoint, ascending, never adjacent.
};

/// Memory occupied by the placed pieces over time: a segment tree over the times at which pieces
/// begin. Two lifetimes overlap if and only if both contain such a time. A step with many
/// microbatches has hundreds of thousands of pieces, thousands of them alive at once. Those lie
/// side by side, so that a tree node has few intervals.
class Occupancy final {
 public:
  explicit Occupancy(const std::vector<Lifetime>& lifetimes) {
    for (const Lifetime& life : lifetimes) times_.push_back(life.first);
    std::ranges::sort(times_);
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
    std::size_t leaves = 1;
    while (leaves < times_.size()) leaves *= 2;
    nodes_.resize(2 * leaves);
  }

  /// Returns the lowest offset at which `bytes` bytes are free during all of `life`.
  std::uint64_t first_free(const Lifetime& life, std::uint64_t bytes) {
    overlapping_.clear();
    collect(kRoot, {0, nodes_.size() / 2}, times_of(life));
    std::uint64_t offset = 0, before = 0;
    do {
      before = offset;
      for (const TakenBytes* taken : overlapping_) offset = taken->first_free(offset, bytes);
    } while (offset != before);
    return offset;
  }

  void take(const Lifetime& life, std::uint64_t begin, std::uint64_t end) {
    take(kRoot, {0, nodes_.size() / 2}, times_of(life), begin, end);
  }

 private:
  /// Range of indices into times_.
  struct TimeRange {
    std::size_t begin = 0, end = 0;
    std::size_t middle() const { return (begin + end) / 2; }
    bool meets(const TimeRange& other) const { return begin < other.end && other.begin < end; }
    bool lies_in(const TimeRange& other) const { return other.begin <= begin && end <= other.end; }
  };
  /// Tree node for a range of times. Its halves are the nodes 2i and 2i + 1.
  struct TimeNode {
    /// Occupied at some time of the range, by pieces that do not cover the parent's range.
    TakenBytes occupied_at_some_time;
    TakenBytes occupied_at_all_times;  ///< Occupied at all times of the range, by the same pieces.
  };
  static constexpr std::size_t kRoot = 1;

  TimeRange times_of(const Lifetime& life) const {
    const auto index = [&](auto at) { return static_cast<std::size_t>(at - times_.begin()); };
    return {index(std::ranges::lower_bound(times_, life.first)),
            index(std::ranges::upper_bound(times_, life.last))};
  }

  void collect(std::size_t node, const TimeRange& of_node, const TimeRange& wanted) {
    if (!of_node.meets(wanted)) return;
    const bool whole = of_node.lies_in(wanted);
    const TakenBytes& taken =
        whole ? nodes_[node].occupied_at_some_time : nodes_[node].occupied_at_all_times;
    if (!taken.empty()) overlapping_.push_back(&taken);
    if (whole) return;
    collect(2 * node, {of_node.begin, of_node.middle()}, wanted);
    collect(2 * node + 1, {of_node.middle(), of_node.end}, wanted);
  }

  void take(std::size_t node, const TimeRange& of_node, const TimeRange& needed,
            std::uint64_t begin, std::uint64_t end) {
    if (!of_node.meets(needed)) return;
    nodes_[node].occupied_at_some_time.add(begin, end);
    if (of_node.lies_in(needed)) {
      nodes_[node].occupied_at_all_times.add(begin, end);
      return;
    }
    take(2 * node, {of_node.begin, of_node.middle()}, needed, begin, end);
    take(2 * node + 1, {of_node.middle(), of_node.end}, needed, begin, end);
  }

  std::vector<std::int64_t> times_;
  std::vector<TimeNode> nodes_;
  std::vector<const TakenBytes*> overlapping_;
};

}  // namespace

ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes) {
  constexpr std::uint64_t kAlignment = 64;
  // Low enough that sums of bytes cannot overflow, and above the memory of any device.
  constexpr std::uint64_t kMaxArena = std::uint64_t{1} << 60;
  ArenaPlan plan{std::vector<std::uint64_t>(lifetimes.size(), 0), 0};
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });
  Occupancy occupancy(lifetimes);
  for (const std::size_t piece : by_size) {
    const Lifetime& life = lifetimes[piece];
    const std::uint64_t bytes = (life.bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (bytes == 0) continue;
    const std::uint64_t offset = occupancy.first_free(life, bytes);
    if (offset + bytes > kMaxArena) {
      throw Error(ErrorCode::kInvalidConfig,
                  fmt::format("the activations of a device need more than {}; use a smaller batch "
                              "or a smaller model",
                              format_bytes(kMaxArena)))
          .at("training.batch");
    }
    plan.offsets[piece] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    occupancy.take(life, offset, offset + bytes);
  }
  return plan;
}

}  // namespace weft::mesh
