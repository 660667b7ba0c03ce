#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>

#include "transfer/reshard/plan.h"

namespace weft::transfer {

/// Cache of recent plans, since a training or serving loop requests the same plans repeatedly. A
/// plain object of its caller; one thread at a time.
class PlanCache final {
 public:
  /// Keeps at most `capacity` plans and evicts the least recently used one.
  explicit PlanCache(std::size_t capacity = 64) : capacity_(capacity) {}

  /// Returns plan_reshard(), or its cached result for equal arguments. The pointer is shared, so
  /// that a running plan may outlive its cache entry.
  std::shared_ptr<const ReshardPlan> plan(std::span<const ReshardTask> tasks,
                                          const Topology& topology, const Network& network,
                                          ReshardAlgorithm strategy,
                                          const PlanOptions& options = {});

  std::size_t size() const { return entries_.size(); }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  struct Entry {
    std::uint64_t hash;
    Network network;
    PlanOptions options;
    std::shared_ptr<const ReshardPlan> plan;
  };

  std::size_t capacity_;
  std::list<Entry> entries_;  ///< Most recently used entry first.
  std::unordered_multimap<std::uint64_t, std::list<Entry>::iterator> by_hash_;
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace weft::transfer
