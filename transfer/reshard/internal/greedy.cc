#include <algorithm>
#include <numeric>
#include <optional>

#include "core/base/philox.h"
#include "transfer/reshard/internal/host_schedule.h"

namespace weft::transfer::internal {
namespace {

/// Returns the sum of squared deviations of the loads once `set` is added. Compares two sets of
/// equal size.
double load_variance(std::vector<std::uint64_t> loads, const std::vector<ScheduleItem>& units,
                     const std::vector<HostAssignment>& set) {
  for (const HostAssignment& placement : set)
    loads[placement.sender] += units[placement.unit].bytes;
  const double mean = std::accumulate(loads.begin(), loads.end(), std::uint64_t{0}) /
                      static_cast<double>(loads.size());
  double sum = 0;
  for (const std::uint64_t load : loads) sum += (load - mean) * (load - mean);
  return sum;
}

/// Draws an idle sender of the unit, more likely one that sends fewer bytes so far. Returns nullopt
/// if all are busy.
std::optional<std::uint32_t> draw_sender(const ScheduleItem& unit,
                                         const std::vector<std::uint64_t>& loads,
                                         const std::vector<bool>& busy, PhiloxStream& random) {
  std::uint64_t most = 0, weights = 0;
  std::size_t idle = 0;
  for (const std::uint32_t host : unit.senders) {
    if (busy[host]) continue;
    ++idle;
    most = std::max(most, loads[host]);
  }
  if (idle == 0) return std::nullopt;
  for (const std::uint32_t host : unit.senders) weights += busy[host] ? 0 : most - loads[host] + 1;
  std::uint64_t choice = random.below(weights);
  std::uint32_t sender = unit.senders.front();
  for (const std::uint32_t host : unit.senders) {
    if (busy[host]) continue;
    sender = host;
    const std::uint64_t weight = most - loads[host] + 1;
    if (choice < weight) break;
    choice -= weight;
  }
  return sender;
}

/// Returns units of `order` that can run concurrently, preferring earlier ones, with random
/// senders.
std::vector<HostAssignment> draw_set(const std::vector<ScheduleItem>& units,
                                     const std::vector<std::uint32_t>& order,
                                     const std::vector<std::uint64_t>& loads,
                                     PhiloxStream& random) {
  std::vector<bool> busy(loads.size());
  std::vector<HostAssignment> set;
  for (const std::uint32_t index : order) {
    const ScheduleItem& unit = units[index];
    if (std::any_of(unit.receivers.begin(), unit.receivers.end(),
                    [&](std::uint32_t host) { return busy[host]; }))
      continue;
    const std::optional<std::uint32_t> sender = draw_sender(unit, loads, busy, random);
    if (!sender) continue;
    busy[*sender] = true;
    for (const std::uint32_t host : unit.receivers) busy[host] = true;
    set.push_back({index, *sender});
  }
  return set;
}

/// Returns the largest of `draws` sets; among equals, the most even one. Leaves `left` in a random
/// order.
std::vector<HostAssignment> best_set(const std::vector<ScheduleItem>& units,
                                     std::vector<std::uint32_t>& left,
                                     const std::vector<std::uint64_t>& loads, std::size_t draws,
                                     PhiloxStream& random) {
  std::vector<HostAssignment> best;
  double best_variance = 0;
  for (std::size_t draw = 0; draw < draws; ++draw) {
    for (std::size_t i = left.size(); i > 1; --i) std::swap(left[i - 1], left[random.below(i)]);
    std::vector<HostAssignment> set = draw_set(units, left, loads, random);
    if (set.size() < best.size()) continue;
    const double value = load_variance(loads, units, set);
    if (set.size() == best.size() && value >= best_variance) continue;
    best = std::move(set);
    best_variance = value;
  }
  return best;
}

}  // namespace

std::vector<HostAssignment> greedy_order(const std::vector<ScheduleItem>& units,
                                         std::size_t num_hosts, std::uint64_t seed) {
  PhiloxStream random(seed);
  std::vector<std::uint32_t> left(units.size());
  std::iota(left.begin(), left.end(), 0u);
  std::vector<std::uint64_t> loads(num_hosts);
  std::vector<HostAssignment> order;
  // The paper draws 100 sets per round; with thousands of units that would take minutes.
  const std::size_t draws = std::clamp<std::size_t>(200'000 / (units.size() + 1), 1, 100);
  while (!left.empty()) {
    std::vector<bool> placed(units.size());
    for (const HostAssignment& placement : best_set(units, left, loads, draws, random)) {
      loads[placement.sender] += units[placement.unit].bytes;
      placed[placement.unit] = true;
      order.push_back(placement);
    }
    std::erase_if(left, [&](std::uint32_t unit) { return placed[unit]; });
    std::sort(left.begin(), left.end());
  }
  return order;
}

}  // namespace weft::transfer::internal
