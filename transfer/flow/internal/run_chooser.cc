#include "transfer/flow/internal/run_chooser.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace weft::transfer::internal {
namespace {

/// Factor by which another flow must be better to replace the present one, because each cut has a
/// cost.
constexpr double kMinImprovement = 1.005;
/// Number of passes over all slots that look for a better flow.
constexpr int kRounds = 3;

}  // namespace

RunChooser::RunChooser(std::span<const Flow> flows, std::span<const std::vector<DeviceId>> roots,
                       const Topology& topology, std::vector<double> capacity,
                       std::span<const std::size_t> slots, const PreemptOptions& options)
    : groups_of_(topology.num_devices()),
      taken_(flows.size()),
      capacity_(std::move(capacity)),
      sharpness_(options.sharpness) {
  urgency_.resize(capacity_.size());
  room_.resize(capacity_.size());
  users_.resize(capacity_.size());
  std::map<std::pair<std::vector<DeviceId>, std::map<std::uint32_t, double>>, std::uint32_t> groups;
  std::vector<std::size_t> count(topology.num_devices());
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    std::map<std::uint32_t, double> links;
    for (const FlowEdge& edge : flows[i].edges) {
      const HostId from = topology.host_of(edge.parent), to = topology.host_of(edge.child);
      if (from == to) continue;
      ++links[2 * from.value()];
      ++links[2 * to.value() + 1];
    }
    if (links.empty()) continue;
    int deepest = 0;
    std::map<DeviceId, int> depth;
    for (const FlowEdge& edge : flows[i].edges) {
      const int hops = depth[edge.parent] +
                       (topology.host_of(edge.parent) == topology.host_of(edge.child) ? 0 : 1);
      depth[edge.child] = hops;
      deepest = std::max(deepest, hops);
    }
    const double weight = 1 + options.depth_weight * (deepest - 1);
    for (const DeviceId device : roots[i]) ++count[device.value()];
    const auto [group, fresh] = groups.try_emplace({roots[i], links}, groups_.size());
    if (fresh) {
      for (const DeviceId device : roots[i]) groups_of_[device.value()].push_back(group->second);
      groups_.push_back({{links.begin(), links.end()}, {}, weight});
    }
    groups_[group->second].flows.push_back(i);
  }
  for (std::uint32_t device = 0; device < count.size(); ++device)
    for (std::size_t i = 0; i < std::min(count[device], slots[device]); ++i)
      slots_.push_back({device});
}

std::uint32_t RunChooser::next_of(std::uint32_t group, const std::vector<bool>& finished) const {
  for (const std::uint32_t flow : groups_[group].flows)
    if (!finished[flow] && !taken_[flow]) return flow;
  return kNone;
}

void RunChooser::clear(SendSlot& slot) {
  if (slot.flow != kNone) taken_[slot.flow] = false;
  slot.group = slot.flow = kNone;
}

void RunChooser::assign(SendSlot& slot, std::uint32_t group, const std::vector<bool>& finished) {
  clear(slot);
  slot.group = group;
  slot.flow = next_of(group, finished);
  taken_[slot.flow] = true;
}

double RunChooser::urgent_work() {
  for (const std::uint32_t link : used_) users_[link] = 0;
  used_.clear();
  open_.clear();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].group == kNone) continue;
    open_.push_back(i);
    for (const auto& [link, copies] : groups_[slots_[i].group].links) {
      if (users_[link] == 0) {
        used_.push_back(link);
        room_[link] = capacity_[link];
      }
      users_[link] += copies;
    }
  }
  double sum = 0;
  while (!open_.empty()) {
    steps_ += 1;
    double level = std::numeric_limits<double>::infinity();
    for (const std::uint32_t link : used_)
      if (users_[link] > 0.5) level = std::min(level, room_[link] / users_[link]);
    level = std::max(level, 0.0);
    std::erase_if(open_, [&](std::uint32_t i) {
      const FlowGroup& group = groups_[slots_[i].group];
      const bool full = std::any_of(group.links.begin(), group.links.end(), [&](const auto& use) {
        return room_[use.first] <= level * users_[use.first] * (1 + 1e-9);
      });
      if (!full) return false;
      for (const auto& [link, copies] : group.links) {
        sum += group.weight * level * copies * urgency_[link] / capacity_[link];
        room_[link] -= level * copies;
        users_[link] -= copies;
      }
      return true;
    });
  }
  return sum;
}

void RunChooser::set_urgency(std::span<const double> seconds_left) {
  const double most = *std::max_element(seconds_left.begin(), seconds_left.end());
  for (std::size_t link = 0; link < urgency_.size(); ++link)
    urgency_[link] =
        seconds_left[link] <= 0 ? 0 : std::exp(sharpness_ * (seconds_left[link] / most - 1));
}

double RunChooser::fill(SendSlot& slot, double now, const std::vector<bool>& finished) {
  const std::uint32_t before = slot.group;
  std::uint32_t best = before;
  double best_value = now;
  for (const std::uint32_t group : groups_of_[slot.device]) {
    if (group == before || next_of(group, finished) == kNone) continue;
    const SendSlot old = slot;
    slot.group = group;
    const double with = urgent_work();
    slot = old;
    if (best != kNone && with <= best_value * (best == before ? kMinImprovement : 1)) continue;
    best = group;
    best_value = with;
  }
  if (best != before) assign(slot, best, finished);
  return best_value;
}

const std::vector<RunChooser::Choice>& RunChooser::choose(std::span<const double> seconds_left,
                                                          const std::vector<bool>& finished,
                                                          const std::vector<bool>& must_continue,
                                                          bool reconsider_all) {
  set_urgency(seconds_left);
  for (SendSlot& slot : slots_) {
    if (slot.flow != kNone && finished[slot.flow]) clear(slot);
  }
  // Fills free slots first, so that no sender is idle while it has something to send.
  double now = urgent_work();
  for (SendSlot& slot : slots_)
    if (slot.group == kNone) now = fill(slot, -1, finished);
  for (int round = 0; reconsider_all && round < kRounds; ++round) {
    const double before = now;
    for (SendSlot& slot : slots_)
      if (slot.group != kNone && !must_continue[slot.flow]) now = fill(slot, now, finished);
    if (now <= before) break;
  }
  chosen_.clear();
  for (const SendSlot& slot : slots_)
    if (slot.flow != kNone) chosen_.push_back({slot.flow, DeviceId(slot.device)});
  return chosen_;
}

}  // namespace weft::transfer::internal
