#include "transfer/flow/internal/fluid_simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "core/base/check.h"

namespace weft::transfer::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kByteTolerance = 0.5;  // smaller amounts are rounding

}  // namespace

FluidSimulation::FluidSimulation(std::span<const Flow> flows, const Topology& topology,
                                 const Network& network, const SimulateOptions& options)
    : devices_(topology.num_devices()),
      options_(options),
      hop_seconds_(options.fill == SimulateOptions::Fill::kExact ? network.hop_seconds : 0) {
  for (const Network::HostLinks& host : network.hosts) {
    capacity_.push_back(host.egress());
    capacity_.push_back(host.ingress());
  }
  std::vector<std::size_t> devices(topology.num_hosts());
  for (const HostId host : topology.host_of_device) ++devices[host.value()];
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    const std::size_t slots =
        options.send_slots.empty()
            ? options.egress.limit_per_device(devices[topology.host_of_device[device].value()])
            : options.send_slots.at(device);
    devices_[device].slots = slots == 0 ? std::numeric_limits<std::size_t>::max() : slots;
  }
  result_.flow_seconds.resize(flows.size());
  result_.egress_bytes.resize(network.num_hosts());
  result_.ingress_bytes.resize(network.num_hosts());
  for (std::uint32_t i = 0; i < flows.size(); ++i) add_flow(i, flows[i], topology);
  children_.resize(edges_.size());
  for (std::uint32_t i = 0; i < edges_.size(); ++i) {
    if (edges_[i].feeder != FluidEdge::kNone) children_[edges_[i].feeder].push_back(i);
  }
  for (std::uint32_t i = 0; i < edges_.size(); ++i) {
    if (edges_[i].feeder == FluidEdge::kNone) start(i);
  }
  unfinished_ = edges_.size();
}

void FluidSimulation::add_flow(std::uint32_t index, const Flow& flow, const Topology& topology) {
  if (flow.edges.size() == 1) {  // fast path: large plans have many such flows
    const FlowEdge& edge = flow.edges.front();
    if (topology.host_of(edge.parent) == topology.host_of(edge.child)) return;
    SendingDevice& device = devices_[edge.parent.value()];
    device.streams.emplace_back();
    add_edge(index, flow, edge, topology, FluidEdge::kNone, device.streams.size() - 1);
    return;
  }
  std::unordered_map<std::uint32_t, std::uint32_t> feeder = {{flow.root.value(), FluidEdge::kNone}};
  std::unordered_map<std::uint32_t, std::uint32_t> stream_of;
  for (const FlowEdge& edge : flow.edges) {
    const auto fed = feeder.find(edge.parent.value());
    WEFT_CHECK(fed != feeder.end(), "flow {} has a child before its parent", index);
    if (topology.host_of(edge.parent) == topology.host_of(edge.child)) {
      feeder.emplace(edge.child.value(), fed->second);
      continue;
    }
    SendingDevice& device = devices_[edge.parent.value()];
    const auto [stream, fresh] = stream_of.emplace(edge.parent.value(), device.streams.size());
    if (fresh) device.streams.emplace_back();
    const std::uint32_t by = fed->second;
    feeder.emplace(edge.child.value(), edges_.size());
    add_edge(index, flow, edge, topology, by, stream->second);
  }
}

void FluidSimulation::add_edge(std::uint32_t index, const Flow& flow, const FlowEdge& edge,
                               const Topology& topology, std::uint32_t feeder,
                               std::uint32_t stream) {
  FluidEdge fluid{index, topology.host_of(edge.parent).value(),
                  topology.host_of(edge.child).value(), feeder, static_cast<double>(flow.bytes)};
  const bool fills = options_.fill == SimulateOptions::Fill::kExact;
  fluid.chunk_lag_bytes = fills ? std::min<double>(flow.chunk_bytes, fluid.bytes) : 0;
  result_.egress_bytes[fluid.from] += fluid.bytes;
  result_.ingress_bytes[fluid.to] += fluid.bytes;
  devices_[edge.parent.value()].streams[stream].edges.push_back(edges_.size());
  sender_of_.push_back({edge.parent.value(), stream});
  edges_.push_back(fluid);
}

void FluidSimulation::start(std::uint32_t edge) {
  edges_[edge].started = true;
  if (options_.fill == SimulateOptions::Fill::kIgnored) {
    for (const std::uint32_t fed : children_[edge]) start(fed);
  } else {
    waiting_.insert(waiting_.end(), children_[edge].begin(), children_[edge].end());
  }
  const auto [device, stream] = sender_of_[edge];
  std::vector<std::uint32_t>& live = devices_[device].live;
  const auto place = std::lower_bound(live.begin(), live.end(), stream);
  if (place == live.end() || *place != stream) live.insert(place, stream);
}

double FluidSimulation::backlog(const FluidEdge& edge) const {
  if (edge.feeder == FluidEdge::kNone || edges_[edge.feeder].done) return kInfinity;
  return edges_[edge.feeder].sent - edge.chunk_lag_bytes - edge.sent;
}

void FluidSimulation::choose_active() {
  for (const std::uint32_t id : active_) {
    edges_[id].active = false;
    edges_[id].rate = 0;
  }
  active_.clear();
  for (SendingDevice& device : devices_) {
    std::size_t slots = device.slots;
    for (const std::uint32_t stream : device.live) {
      if (slots == 0) break;
      const FluidEdge& first = edges_[device.streams[stream].edges.front()];
      const bool is_chosen = scheduling_ && first.feeder == FluidEdge::kNone;
      if (is_chosen && !chosen_[first.flow]) continue;
      bool busy = false;
      for (const std::uint32_t id : device.streams[stream].edges) {
        FluidEdge& edge = edges_[id];
        if (edge.done || !edge.started) continue;
        const double bytes = backlog(edge);
        edge.coupled = bytes <= kByteTolerance;
        busy |= bytes > edge.chunk_lag_bytes + kByteTolerance;
        edge.active = true;
        active_.push_back(id);
      }
      if (busy && !is_chosen) --slots;
    }
  }
}

/// Sets the rate of edge `id` and of all edges that it feeds and that have caught up with it.
void FluidSimulation::set_rate(std::uint32_t id, double rate) {
  edges_[id].rate = rate;
  for (const std::uint32_t fed : children_[id]) {
    if (!edges_[fed].active || !edges_[fed].coupled) continue;
    shares_.fix(fed, rate, [this](std::uint32_t edge, double same) { set_rate(edge, same); });
  }
}

void FluidSimulation::allocate() {
  const auto set = [this](std::uint32_t edge, double rate) { set_rate(edge, rate); };
  shares_.start_round(capacity_);
  for (const std::uint32_t id : active_) {
    shares_.add_use(id, 2 * edges_[id].from);
    shares_.add_use(id, 2 * edges_[id].to + 1);
  }
  // An edge that has sent all that arrived, and whose feeder waits for a slot, does not move.
  for (const std::uint32_t id : active_) {
    if (edges_[id].coupled && !edges_[edges_[id].feeder].active) shares_.fix(id, 0, set);
  }
  shares_.compute_shares(set);
}

double FluidSimulation::next_event() const {
  double dt = kInfinity;
  for (const std::uint32_t id : active_) {
    const FluidEdge& edge = edges_[id];
    if (edge.rate <= 0) continue;
    dt = std::min(dt, (edge.bytes - edge.sent) / edge.rate);
    if (edge.feeder == FluidEdge::kNone || edges_[edge.feeder].done || edge.coupled) continue;
    const FluidEdge& feeder = edges_[edge.feeder];
    if (edge.rate > feeder.rate * (1 + 1e-9))
      dt = std::min(dt, std::max(0.0, feeder.sent - edge.chunk_lag_bytes - edge.sent) /
                            (edge.rate - feeder.rate));
  }
  for (const std::uint32_t id : waiting_) {
    const FluidEdge& feeder = edges_[edges_[id].feeder];
    if (feeder.rate > 0)
      dt = std::min(dt, std::max(0.0, edges_[id].chunk_lag_bytes - feeder.sent) / feeder.rate);
  }
  for (const EdgeStart& start : starts_) dt = std::min(dt, start.seconds - now_);
  return dt;
}

void FluidSimulation::advance(double seconds) {
  now_ += seconds;
  std::vector<std::uint32_t> finished;
  for (const std::uint32_t id : active_) {
    FluidEdge& edge = edges_[id];
    if (edge.rate <= 0) continue;
    edge.sent += edge.rate * seconds;
    if (edge.sent >= edge.bytes - kByteTolerance) {
      edge.sent = edge.bytes;
      edge.done = true;
      finished.push_back(id);
    }
  }
  // A coarse step may overshoot: a device cannot have sent more than its parent delivered.
  if (options_.resolution_seconds > 0) {
    for (const std::uint32_t id : active_) {
      FluidEdge& edge = edges_[id];
      if (edge.feeder != FluidEdge::kNone && !edges_[edge.feeder].done && !edge.done)
        edge.sent =
            std::min(edge.sent, std::max(0.0, edges_[edge.feeder].sent - edge.chunk_lag_bytes));
    }
  }
  std::erase_if(waiting_, [&](std::uint32_t id) {
    if (edges_[edges_[id].feeder].sent < edges_[id].chunk_lag_bytes - kByteTolerance) return false;
    starts_.push_back({now_ + hop_seconds_, id});
    return true;
  });
  for (const std::uint32_t id : finished) {
    FluidEdge& edge = edges_[id];
    --unfinished_;
    result_.flow_seconds[edge.flow] =
        std::max(result_.flow_seconds[edge.flow], now_ + hop_seconds_);
    SendingDevice& device = devices_[sender_of_[id].device];
    const std::vector<std::uint32_t>& siblings = device.streams[sender_of_[id].stream].edges;
    if (std::all_of(siblings.begin(), siblings.end(),
                    [&](std::uint32_t other) { return edges_[other].done; }))
      std::erase(device.live, sender_of_[id].stream);
  }
  std::erase_if(starts_, [&](const EdgeStart& pending) {
    if (pending.seconds > now_ + 1e-12) return false;
    start(pending.edge);
    return true;
  });
}

void FluidSimulation::step(double until) {
  choose_active();
  allocate();
  const double dt = std::min(next_event(), until - now_);
  WEFT_CHECK(dt < kInfinity, "the simulation stands still at {} s with {} edges to go", now_,
             unfinished_);
  // Starts at 1/64 of the resolution and doubles the step every `fine_events` events.
  const std::uint64_t fine_events = std::clamp<std::uint64_t>(65536 / (edges_.size() + 1), 8, 64);
  const std::uint64_t doublings = std::min<std::uint64_t>(6, result_.events / fine_events);
  const double step = options_.resolution_seconds * std::exp2(static_cast<double>(doublings) - 6);
  advance(std::max(dt, step));
  ++result_.events;
  result_.steps += active_.size() + devices_.size() / 4;
}

FlowSimulation FluidSimulation::run() {
  while (unfinished_ > 0) step(kInfinity);
  for (const double seconds : result_.flow_seconds)
    result_.seconds = std::max(result_.seconds, seconds);
  return std::move(result_);
}

}  // namespace weft::transfer::internal
