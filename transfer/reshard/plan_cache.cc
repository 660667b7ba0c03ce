#include "transfer/reshard/plan_cache.h"

#include <algorithm>
#include <bit>

#include "transfer/reshard/internal/task_hash.h"

namespace weft::transfer {
namespace {

std::uint64_t hash_of(std::span<const ReshardTask> tasks, const Topology& topology,
                      const Network& network, ReshardAlgorithm strategy) {
  std::uint64_t hash = internal::mix(static_cast<std::uint64_t>(strategy), tasks.size());
  for (const ReshardTask& task : tasks)
    hash = internal::mix(internal::mix(hash, internal::hash_of(task)),
                         static_cast<std::uint64_t>(task.type.dtype));
  for (const HostId host : topology.host_of_device) hash = internal::mix(hash, host.value());
  for (const Network::HostLinks& host : network.hosts) {
    for (const Nic& nic : host.nics)
      hash = internal::mix(internal::mix(hash, std::bit_cast<std::uint64_t>(nic.egress)),
                           std::bit_cast<std::uint64_t>(nic.ingress));
  }
  return hash;
}

}  // namespace

std::shared_ptr<const ReshardPlan> PlanCache::plan(std::span<const ReshardTask> tasks,
                                                   const Topology& topology, const Network& network,
                                                   ReshardAlgorithm strategy,
                                                   const PlanOptions& options) {
  const std::uint64_t hash = hash_of(tasks, topology, network, strategy);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Entry& entry = *it->second;
    if (entry.plan->strategy != strategy || entry.plan->topology != topology ||
        entry.network != network || entry.options != options ||
        !std::equal(tasks.begin(), tasks.end(), entry.plan->tasks.begin(), entry.plan->tasks.end()))
      continue;
    ++hits_;
    entries_.splice(entries_.begin(), entries_, it->second);
    return entry.plan;
  }
  ++misses_;
  auto made = std::make_shared<const ReshardPlan>(
      plan_reshard(tasks, topology, network, strategy, options));
  if (capacity_ == 0) return made;
  if (entries_.size() == capacity_) {
    const auto [begin, end] = by_hash_.equal_range(entries_.back().hash);
    by_hash_.erase(std::find_if(
        begin, end, [&](const auto& other) { return other.second == std::prev(entries_.end()); }));
    entries_.pop_back();
  }
  entries_.push_front({hash, network, options, made});
  by_hash_.emplace(hash, entries_.begin());
  return made;
}

}  // namespace weft::transfer
