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
                       std::span<const std::size_t> places, const PreemptOptions& options)
    : kinds_of_(topology.num_devices()),
      taken_(flows.size()),
      capacity_(std::move(capacity)),
      sharpness_(options.sharpness) {
  urgency_.resize(capacity_.size());
  room_.resize(capacity_.size());
  users_.resize(capacity_.size());
  std::map<std::pair<std::vector<DeviceId>, std::map<std::uint32_t, double>>, std::uint32_t> kinds;
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
    const auto [kind, fresh] = kinds.try_emplace({roots[i], links}, kinds_.size());
    if (fresh) {
      for (const DeviceId device : roots[i]) kinds_of_[device.value()].push_back(kind->second);
      kinds_.push_back({{links.begin(), links.end()}, {}, weight});
    }
    kinds_[kind->second].flows.push_back(i);
  }
  for (std::uint32_t device = 0; device < count.size(); ++device)
    for (std::size_t i = 0; i < std::min(count[device], places[device]); ++i)
      places_.push_back({device});
}

std::uint32_t RunChooser::next_of(std::uint32_t kind, const std::vector<bool>& finished) const {
  for (const std::uint32_t flow : kinds_[kind].flows)
    if (!finished[flow] && !taken_[flow]) return flow;
  return kNone;
}

void RunChooser::clear(Place& place) {
  if (place.flow != kNone) taken_[place.flow] = false;
  place.kind = place.flow = kNone;
}

void RunChooser::put(Place& place, std::uint32_t kind, const std::vector<bool>& finished) {
  clear(place);
  place.kind = kind;
  place.flow = next_of(kind, finished);
  taken_[place.flow] = true;
}

double RunChooser::value() {
  for (const std::uint32_t link : used_) users_[link] = 0;
  used_.clear();
  open_.clear();
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    if (places_[i].kind == kNone) continue;
    open_.push_back(i);
    for (const auto& [link, copies] : kinds_[places_[i].kind].links) {
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
      const Kind& kind = kinds_[places_[i].kind];
      const bool full = std::any_of(kind.links.begin(), kind.links.end(), [&](const auto& use) {
        return room_[use.first] <= level * users_[use.first] * (1 + 1e-9);
      });
      if (!full) return false;
      for (const auto& [link, copies] : kind.links) {
        sum += kind.weight * level * copies * urgency_[link] / capacity_[link];
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

double RunChooser::fill(Place& place, double now, const std::vector<bool>& finished) {
  const std::uint32_t before = place.kind;
  std::uint32_t best = before;
  double best_value = now;
  for (const std::uint32_t kind : kinds_of_[place.device]) {
    if (kind == before || next_of(kind, finished) == kNone) continue;
    const Place old = place;
    place.kind = kind;
    const double with = value();
    place = old;
    if (best != kNone && with <= best_value * (best == before ? kMinImprovement : 1)) continue;
    best = kind;
    best_value = with;
  }
  if (best != before) put(place, best, finished);
  return best_value;
}

const std::vector<RunChooser::Choice>& RunChooser::choose(std::span<const double> seconds_left,
                                                          const std::vector<bool>& finished,
                                                          const std::vector<bool>& held,
                                                          bool anew) {
  set_urgency(seconds_left);
  for (Place& place : places_) {
    if (place.flow != kNone && finished[place.flow]) clear(place);
  }
  // Fills free slots first, so that no sender is idle while it has something to send.
  double now = value();
  for (Place& place : places_)
    if (place.kind == kNone) now = fill(place, -1, finished);
  for (int round = 0; anew && round < kRounds; ++round) {
    const double before = now;
    for (Place& place : places_)
      if (place.kind != kNone && !held[place.flow]) now = fill(place, now, finished);
    if (now <= before) break;
  }
  chosen_.clear();
  for (const Place& place : places_)
    if (place.flow != kNone) chosen_.push_back({place.flow, DeviceId(place.device)});
  return chosen_;
}

}  // namespace weft::transfer::internal
