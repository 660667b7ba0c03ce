#include "apps/cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/cli/link_loads.h"
#include "core/base/units.h"
#include "transfer/reshard/plan_stats.h"
#include "transfer/reshard/slices.h"

namespace weft::apps {
namespace {

using transfer::DeviceId;
using transfer::Flow;
using transfer::FlowEdge;
using transfer::HostId;

constexpr std::size_t kMostLines = 24;

/// Lists up to kMostLines of `lines`, and the number of the others.
std::string some_of(const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i)
    text += "  " + lines[i] + "\n";
  if (lines.size() > kMostLines)
    text += fmt::format("  ... and {} more (--json shows all)\n", lines.size() - kMostLines);
  return text;
}

std::string devices_text(const std::vector<DeviceId>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    std::size_t end = i;
    while (end + 1 < devices.size() && devices[end + 1].value() == devices[end].value() + 1) ++end;
    if (!text.empty()) text += ",";
    text += end > i + 1 ? fmt::format("{}-{}", devices[i], devices[end])
                        : fmt::format("{}", devices[i]);
    if (end > i + 1) i = end;
  }
  return text.empty() ? "none" : text;
}

/// Formats a flow's tree: "0 => 8 (9 10 11) => 12 (13 14 15)". => crosses hosts; devices in
/// brackets receive the flow inside the host.
std::string tree_text(const Flow& flow, const transfer::Topology& topology, DeviceId at) {
  std::string near, far;
  for (const FlowEdge& edge : flow.edges) {
    if (edge.parent != at) continue;
    const std::string below = tree_text(flow, topology, edge.child);
    if (topology.host_of(edge.child) == topology.host_of(at))
      near += (near.empty() ? "" : " ") + below;
    else far += (far.empty() ? " => " : ", ") + below;
  }
  return fmt::format("{}{}{}", at, near.empty() ? "" : " (" + near + ")", far);
}

std::string flow_text(const Flow& flow, const transfer::Topology& topology) {
  const std::uint64_t chunks =
      flow.chunk_bytes == 0 ? 0 : (flow.bytes + flow.chunk_bytes - 1) / flow.chunk_bytes;
  return fmt::format("{:>3}  {:>10}  {} x {}, window {}:  {}", flow.id, format_bytes(flow.bytes),
                     chunks, format_bytes(flow.chunk_bytes), flow.window,
                     tree_text(flow, topology, flow.root));
}

double ratio(const transfer::ReshardPlan& plan) {
  return plan.predicted_seconds > 0 ? plan.limit.seconds / plan.predicted_seconds : 1;
}

}  // namespace

std::string describe_plan(const ReshardProblem& problem, const transfer::ReshardPlan& plan,
                          double plan_seconds) {
  const transfer::PlanStats stats = plan_stats(plan);
  std::string text = fmt::format("{} of {}, {} -> {}, by {}\n", to_string(problem.task.type),
                                 format_bytes(problem.task.type.bytes()), to_string(problem.source),
                                 to_string(problem.destination), to_string(plan.strategy));
  text += fmt::format("network: {}\n\nslices\n", to_string(problem.network));
  std::vector<std::string> lines;
  for (const transfer::Slice& slice :
       transfer::cut_slices(problem.task.source, problem.task.destination)) {
    const auto bytes = slice.region.num_elements() * size_of(problem.task.type.dtype);
    lines.push_back(fmt::format(
        "{:>10}  {}  held by {}, wanted by {}{}", format_bytes(bytes), to_string(slice.region),
        devices_text(slice.holders), devices_text(slice.receivers),
        slice.local.empty() ? "" : fmt::format(", copied by {}", devices_text(slice.local))));
  }
  text +=
      some_of(lines) + "\nflows, in their order (=> between hosts, in brackets inside a host)\n";
  lines.clear();
  for (const Flow& flow : plan.flows) lines.push_back(flow_text(flow, plan.topology));
  text += some_of(lines) + "\nlinks\n";
  lines.clear();
  const std::vector<LinkLoad> loads = link_loads(plan, problem.network);
  for (std::size_t host = 0; host < loads.size(); ++host)
    lines.push_back(
        fmt::format("host {:>3}  out {:>10} in {:>9}   in {:>10} in {:>9}", host,
                    format_bytes(loads[host].bytes_out), format_seconds(loads[host].seconds_out),
                    format_bytes(loads[host].bytes_in), format_seconds(loads[host].seconds_in)));
  text += some_of(lines);
  text += fmt::format("\n{} between hosts (no plan can do with less than {}), {} inside hosts\n",
                      format_bytes(stats.bytes_between_hosts),
                      format_bytes(stats.minimum_between_hosts),
                      format_bytes(stats.bytes_inside_hosts));
  text += fmt::format("limit {}, predicted {}: {:.3f} of the limit; planned in {}\n",
                      format_seconds(plan.limit.seconds), format_seconds(plan.predicted_seconds),
                      ratio(plan), format_seconds(plan_seconds));
  return text + fmt::format("digest {}\n", plan.digest().substr(0, 16));
}

nlohmann::ordered_json to_json(const ReshardProblem& problem, const transfer::ReshardPlan& plan,
                               double plan_seconds) {
  const auto numbers = [](const std::vector<DeviceId>& devices) {
    std::vector<std::uint32_t> list;
    for (const DeviceId device : devices) list.push_back(device.value());
    return list;
  };
  const transfer::PlanStats stats = plan_stats(plan);
  nlohmann::ordered_json json = {{"tensor", to_string(problem.task.type)},
                                 {"bytes", problem.task.type.bytes()},
                                 {"strategy", to_string(plan.strategy)},
                                 {"limit_seconds", plan.limit.seconds},
                                 {"predicted_seconds", plan.predicted_seconds},
                                 {"ratio_to_limit", ratio(plan)},
                                 {"plan_seconds", plan_seconds},
                                 {"bytes_between_hosts", stats.bytes_between_hosts},
                                 {"minimum_between_hosts", stats.minimum_between_hosts},
                                 {"bytes_inside_hosts", stats.bytes_inside_hosts},
                                 {"digest", plan.digest()}};
  for (const transfer::Slice& slice :
       transfer::cut_slices(problem.task.source, problem.task.destination))
    json["slices"].push_back({{"region", to_string(slice.region)},
                              {"holders", numbers(slice.holders)},
                              {"wanters", numbers(slice.receivers)},
                              {"local", numbers(slice.local)}});
  json["flows"] = nlohmann::ordered_json::array();
  for (const Flow& flow : plan.flows) {
    nlohmann::ordered_json edges = nlohmann::ordered_json::array();
    for (const FlowEdge& edge : flow.edges)
      edges.push_back({edge.parent.value(), edge.child.value()});
    json["flows"].push_back({{"id", flow.id.value()},
                             {"bytes", flow.bytes},
                             {"chunk_bytes", flow.chunk_bytes},
                             {"window", flow.window},
                             {"root", flow.root.value()},
                             {"edges", std::move(edges)}});
  }
  for (const LinkLoad& load : link_loads(plan, problem.network))
    json["hosts"].push_back({{"bytes_out", load.bytes_out},
                             {"bytes_in", load.bytes_in},
                             {"seconds_out", load.seconds_out},
                             {"seconds_in", load.seconds_in}});
  return json;
}

}  // namespace weft::apps
