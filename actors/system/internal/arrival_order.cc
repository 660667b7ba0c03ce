#include "actors/system/internal/arrival_order.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace weft::actors {

ArrivalOrder::Fate ArrivalOrder::add(ProcessId origin, Envelope envelope, Arrivals& arrivals) {
  const CallOrder order = envelope.call.order;
  Origin& from = origin_of(origin);
  if (order.stream <= from.last_ended) return Fate::kStale;
  const auto [found, is_new] =
      from.lanes.try_emplace(std::pair(envelope.call.actor, envelope.call.urgent));
  num_lanes_ += is_new ? 1 : 0;
  Lane& lane = found->second;
  if (order.stream < lane.stream) return Fate::kStale;
  if (order.stream > lane.stream) {
    drop_held(lane, arrivals);
    lane = Lane();
    lane.stream = order.stream;
  }
  if (order.number < lane.next || lane.held.contains(order.number)) return Fate::kSeen;
  std::optional<Envelope> call;
  if (order.kind != CallOrder::Kind::kSkip) call = std::move(envelope);
  if (order.number != lane.next) {
    if (lane.held.size() >= kMaxEarly) {
      from.last_ended = order.stream;
      drop_held(lane, arrivals);
      return Fate::kStale;
    }
    const bool fits = !call || lane.num_held < kMaxHeld;
    lane.num_held += call && fits ? 1 : 0;
    lane.held.emplace(order.number, fits ? std::move(call) : std::nullopt);
    if (fits) return Fate::kTaken;
    throw_error(ErrorCode::kResourceExhausted,
                "call number {} of this caller arrived, call number {} has not, and {} calls wait "
                "for it already; the call was not started",
                order.number, lane.next, kMaxHeld);
  }
  while (true) {
    if (call) arrivals.ready.push_back(std::move(*call));
    ++lane.next;
    if (lane.held.empty() || lane.held.begin()->first != lane.next) return Fate::kTaken;
    call = std::move(lane.held.begin()->second);
    if (call) --lane.num_held;
    lane.held.erase(lane.held.begin());
  }
}

std::optional<Envelope> ArrivalOrder::cancel(ProcessId origin, std::uint64_t call_id) {
  const auto found = origins_.find(origin);
  if (found == origins_.end()) return std::nullopt;
  for (auto& [key, lane] : found->second.lanes)
    for (auto& [number, call] : lane.held) {
      if (!call || call->call.id != call_id) continue;
      --lane.num_held;
      return std::exchange(call, std::nullopt);
    }
  return std::nullopt;
}

void ArrivalOrder::drop(ProcessId origin, std::uint64_t last_direct, Arrivals& arrivals) {
  const auto found = origins_.find(origin);
  if (found == origins_.end()) return;
  std::uint64_t& last_ended = found->second.last_ended;
  last_ended = std::max(last_ended, last_direct);
  for (const auto& [key, lane] : found->second.lanes)
    if (!lane.held.empty()) last_ended = std::max(last_ended, lane.stream);
  for (auto& [key, lane] : found->second.lanes)
    if (lane.stream <= last_ended) drop_held(lane, arrivals);
}

void ArrivalOrder::forget(ProcessId origin, Arrivals& arrivals) {
  const auto found = origins_.find(origin);
  if (found == origins_.end()) return;
  for (auto& [key, lane] : found->second.lanes) drop_held(lane, arrivals);
  erase(found);
}

void ArrivalOrder::erase(std::unordered_map<ProcessId, Origin>::iterator origin) {
  num_lanes_ -= origin->second.lanes.size();
  origins_.erase(origin);
}

void ArrivalOrder::purge(const std::function<bool(ActorId)>& lives, Arrivals& arrivals) {
  for (auto& [process, origin] : origins_)
    for (auto at = origin.lanes.begin(); at != origin.lanes.end();) {
      const auto lane = at++;
      if (lives(lane->first.first)) continue;
      drop_held(lane->second, arrivals);
      origin.lanes.erase(lane);
      --num_lanes_;
    }
  purge_at_ = std::max(kMinPurge, 2 * num_lanes_);
}

void ArrivalOrder::drop_held(Lane& lane, Arrivals& arrivals) {
  for (auto& [number, call] : lane.held)
    if (call) arrivals.dropped.push_back(std::move(*call));
  lane.held.clear();
  lane.num_held = 0;
}

ArrivalOrder::Origin& ArrivalOrder::origin_of(ProcessId process) {
  const auto [found, is_new] = origins_.try_emplace(process);
  Origin& origin = found->second;
  origin.last_used = ++uses_;
  if (!is_new) return origin;
  if (const auto before = evicted_.find(process); before != evicted_.end()) {
    origin.last_ended = before->second;
    evicted_.erase(before);
  }
  if (origins_.size() > kMaxOrigins) evict(process);
  return origin;
}

void ArrivalOrder::evict(ProcessId spared) {
  const auto holds = [](const auto& lane) { return !lane.second.held.empty(); };
  auto oldest = origins_.end();
  for (auto at = origins_.begin(); at != origins_.end(); ++at)
    if (at->first != spared && std::ranges::none_of(at->second.lanes, holds) &&
        (oldest == origins_.end() || at->second.last_used < oldest->second.last_used))
      oldest = at;
  if (oldest == origins_.end()) return;
  std::uint64_t last = oldest->second.last_ended;
  for (const auto& [key, lane] : oldest->second.lanes) last = std::max(last, lane.stream);
  if (evicted_.size() >= kMaxEvicted) evicted_.clear();
  evicted_.emplace(oldest->first, last);
  erase(oldest);
}

}  // namespace weft::actors
