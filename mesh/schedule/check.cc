#include "mesh/schedule/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {
namespace {

/// Builder of a report, property by property. Checks later properties only if the earlier ones
/// permit it.
class Checker {
 public:
  Checker(const Schedule& schedule, const ScheduleCosts& costs, const ScheduleLimits& limits)
      : schedule_(schedule), costs_(costs), limits_(limits), edges_(costs.stage_edges()) {
    for (int property = 0; property <= static_cast<int>(ScheduleProperty::kSumOrder); ++property) {
      Finding& finding = report_.findings.emplace_back();
      finding.property = static_cast<ScheduleProperty>(property);
      finding.detail = "not checked, because an earlier property fails";
    }
  }

  ScheduleReport run() {
    if (!complete()) return std::move(report_);
    found(ScheduleProperty::kLocalOrder, find_order_violation(schedule_, edges_));
    found(ScheduleProperty::kEdgeMonotone, find_edge_order_violation(schedule_, edges_));
    found(ScheduleProperty::kSumOrder, find_sum_order_violation(schedule_));
    const ActionGraph graph(schedule_, edges_);
    const std::vector<int> cycle = graph.find_cycle();
    found(ScheduleProperty::kAcyclic, cycle.empty() ? "" : describe_cycle(graph, cycle));
    if (!cycle.empty()) return std::move(report_);
    channels();
    simulated();
    return std::move(report_);
  }

 private:
  void found(ScheduleProperty property, std::string wrong, std::string right = "") {
    Finding& finding = report_.findings[static_cast<std::size_t>(property)];
    finding.holds = wrong.empty();
    finding.detail = wrong.empty() ? std::move(right) : std::move(wrong);
  }

  bool complete() {
    try {
      check_complete(schedule_, edges_);
    } catch (const Error& error) {
      found(ScheduleProperty::kComplete, error.message());
      return false;
    }
    std::size_t actions = 0;
    for (const auto& list : schedule_.actors) actions += list.size();
    found(ScheduleProperty::kComplete, "", fmt::format("{} actions", actions));
    return true;
  }

  void channels() {
    const LoweredSchedule lowered = lower(schedule_, edges_, TransferOrder::kBeforeUse);
    std::size_t transfers = 0;
    for (const auto& list : lowered) {
      transfers += std::ranges::count(list, Operation::What::kSend, &Operation::what);
    }
    found(ScheduleProperty::kMatched, find_unmatched_half(lowered),
          fmt::format("{} transfers", transfers));
    for (const ChannelModel model : kChannelModels) {
      report_.channels.push_back({model, min_buffers(lowered, model, schedule_.microbatches),
                                  find_deadlock(lowered, model)});
    }
    const ChannelFinding& own = report_.channels.back();
    found(ScheduleProperty::kDeadlockFree, own.buffers == 0 ? "" : own.cycle,
          "a lane per edge needs no buffer");
  }

  void simulated() {
    const ScheduleSimulation simulation = simulate(schedule_, costs_);
    std::string over;
    for (std::size_t actor = 0; actor < simulation.actors.size(); ++actor) {
      const SimulatedActor& one = simulation.actors[actor];
      if (over.empty() && !limits_.memory_of_actor.empty() &&
          one.peak > limits_.memory_of_actor[actor] * (1 + 1e-9)) {
        over = fmt::format("actor {} needs memory {:.6g} during {}, but its limit is {:.6g}", actor,
                           one.peak, busy_with(one), limits_.memory_of_actor[actor]);
      }
    }
    found(ScheduleProperty::kMemory, over, fmt::format("peak {:.6g}", simulation.peak()));
    found(ScheduleProperty::kLifetime, find_memory_leak(simulation));
    const std::string bubble = fmt::format("{:.2f} % of the makespan, span bubble {:.6g}",
                                           100 * simulation.bubble_rate(), simulation.span_bubble);
    const bool much =
        limits_.makespan_bubble && simulation.bubble_rate() > *limits_.makespan_bubble + 1e-9;
    found(ScheduleProperty::kBubble,
          much ? fmt::format("{}; the limit is {:.2f} %", bubble, 100 * *limits_.makespan_bubble)
               : "",
          bubble);
  }

  /// Returns the action during which an actor first reaches its peak memory.
  static std::string busy_with(const SimulatedActor& actor) {
    for (const MemoryLevel& level : actor.memory) {
      if (level.held < actor.peak * (1 - 1e-12)) continue;
      for (const SimulatedAction& one : actor.actions) {
        if (one.start <= level.time && level.time < one.end) return to_string(one.action);
      }
      return fmt::format("time {:.6g}", level.time);
    }
    return "the start";
  }

  const Schedule& schedule_;
  const ScheduleCosts& costs_;
  const ScheduleLimits& limits_;
  const std::vector<StageEdge> edges_;
  ScheduleReport report_;
};

}  // namespace

std::string_view to_string(ScheduleProperty property) {
  static constexpr std::string_view kNames[] = {
      "complete and unique", "local order", "no cycle",  "edges in order", "no deadlock",
      "sends matched",       "memory",      "lifetimes", "bubble",         "order of sums"};
  return kNames[static_cast<std::size_t>(property)];
}

bool ScheduleReport::holds() const {
  return std::ranges::all_of(findings,
                             [](const Finding& finding) { return finding.holds.value_or(false); });
}

ScheduleReport check_schedule(const Schedule& schedule, const ScheduleCosts& costs,
                              const ScheduleLimits& limits) {
  require_stage_costs(schedule, costs);
  if (!limits.memory_of_actor.empty() && limits.memory_of_actor.size() != schedule.actors.size()) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' has {} actors, but {} have a memory cap", schedule.name,
                schedule.actors.size(), limits.memory_of_actor.size());
  }
  return Checker(schedule, costs, limits).run();
}

std::string find_order_violation(const Schedule& schedule, std::span<const StageEdge> edges) {
  const ActionGraph graph(schedule, edges);
  for (int node = 0; node < graph.size(); ++node) {
    for (const ActionGraph::ActionDependency& need : graph.needs(node)) {
      if (need.node < node || graph.actor(need.node) != graph.actor(node)) continue;
      return fmt::format("actor {}: {} comes before {}, on which it depends; swap them",
                         graph.actor(node), to_string(graph.action(node)),
                         to_string(graph.action(need.node)));
    }
  }
  return "";
}

std::string find_edge_order_violation(const Schedule& schedule, std::span<const StageEdge> edges) {
  const auto order = [&](int stage, bool backward) {
    std::vector<int> microbatches;
    for (const Action& action : schedule.actors[schedule.actor_of_stage[stage]]) {
      if (action.stage == stage &&
          (backward ? gives_input_grad(action.kind) : action.kind == ActionKind::kForward)) {
        microbatches.push_back(action.microbatch);
      }
    }
    return microbatches;
  };
  for (const StageEdge& edge : edges) {
    for (const bool backward : {false, true}) {
      const std::vector<int> from = order(edge.from, backward), to = order(edge.to, backward);
      const auto differs = std::ranges::mismatch(from, to);
      if (differs.in1 == from.end()) continue;
      return fmt::format(
          "{} over edge {} -> {}: stage {} takes microbatch {} where stage {} takes {}; transfers "
          "need tags and a buffer",
          backward ? "gradients" : "activations", edge.from, edge.to, edge.from, *differs.in1,
          edge.to, *differs.in2);
    }
  }
  return find_unordered_pass(schedule);
}

std::string find_memory_leak(const ScheduleSimulation& simulation) {
  for (std::size_t actor = 0; actor < simulation.actors.size(); ++actor) {
    const std::vector<MemoryLevel>& levels = simulation.actors[actor].memory;
    double most = 0;
    for (const MemoryLevel& level : levels) most = std::max(most, std::abs(level.held));
    for (const MemoryLevel& level : levels) {
      if (level.held < -1e-9 * most)
        return fmt::format("actor {} frees more memory than it holds, at time {:.6g}", actor,
                           level.time);
    }
    if (!levels.empty() && levels.back().held > 1e-9 * most) {
      return fmt::format("actor {} still holds {:.6g} at the end", actor, levels.back().held);
    }
  }
  return "";
}

}  // namespace weft::mesh
