#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "actors/call/combine.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Part of a reduction: the combined results of neighbouring ranks.
struct PartialResult {
  /// Position in the tree of the reduction: level 0 has the ranks, and each level half as many
  /// nodes as the one below. A node covers 2^level ranks, fewer at the end.
  std::size_t level = 0;
  std::size_t index = 0;
  std::vector<std::byte> value;    ///< Encoded.
  std::vector<std::uint64_t> ids;  ///< Calls that it covers, for the users that need them.
};

/// Partial results of a reduction, which combine with their neighbours.
///
/// Neighbours are combined first, then pairs of neighbours, so the order depends on the number of
/// ranks only: see CallReduction. Any thread; nodes of different parts combine at once.
class PartialResults final {
 public:
  /// Replaces the value of `left`, which covers the lower ranks, by its combination with that of
  /// `right`. Returns false if both stay as they are, uncombined. May throw.
  using Combine = std::function<bool(PartialResult& left, const PartialResult& right)>;
  PartialResults(std::size_t num_ranks, Combine combine)
      : num_ranks_(num_ranks), combine_(std::move(combine)) {}

  /// Adds a part and combines what can be combined. Throws what the function throws; the two parts
  /// are lost then.
  void add(PartialResult part);
  /// Removes and returns the parts that are left: one, if all ranks have been added and combined.
  std::vector<PartialResult> take();

 private:
  using Node = std::pair<std::size_t, std::size_t>;
  const std::size_t num_ranks_;
  const Combine combine_;
  Mutex mutex_;  // guards waiting_
  std::map<Node, PartialResult> waiting_;
};

}  // namespace weft::actors
