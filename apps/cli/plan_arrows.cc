#include "apps/cli/plan_arrows.h"

#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace weft::apps {
namespace {

constexpr std::size_t kMostFlows = 12;

}  // namespace

Arrows arrows_of(const transfer::ReshardPlan& plan) {
  using transfer::DeviceId;
  using transfer::HostId;
  Arrows arrows;
  std::set<std::uint32_t> flows;
  for (const transfer::Flow& flow : plan.flows) {
    if (!flow.edges.empty()) flows.insert(flow.id.value());
  }
  arrows.per_flow = flows.size() <= kMostFlows;
  std::map<std::tuple<std::size_t, HostId, HostId>, std::uint64_t> between;
  std::map<std::tuple<std::size_t, DeviceId, DeviceId>, std::uint64_t> inside;
  for (const transfer::Flow& flow : plan.flows) {
    for (const transfer::FlowEdge& edge : flow.edges) {
      const HostId from = plan.topology.host_of(edge.parent),
                   to = plan.topology.host_of(edge.child);
      const std::size_t colour =
          arrows.per_flow
              ? static_cast<std::size_t>(std::distance(flows.begin(), flows.find(flow.id.value())))
              : from.value();
      if (from == to) inside[{colour, edge.parent, edge.child}] += flow.bytes;
      else between[{colour, from, to}] += flow.bytes;
    }
  }
  for (const auto& [key, bytes] : between)
    arrows.between_hosts.push_back({std::get<1>(key), std::get<2>(key), std::get<0>(key), bytes});
  for (const auto& [key, bytes] : inside)
    arrows.inside_hosts.push_back({std::get<1>(key), std::get<2>(key), std::get<0>(key), bytes});
  return arrows;
}

}  // namespace weft::apps
