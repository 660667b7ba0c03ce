#include "mesh/costs/find_schedule.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mesh/costs/plan_costs.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/plan/schedule_choice.h"
#include "mesh/search/search.h"

namespace weft::mesh {
namespace {

/// Replaces planned transfer times by measured ones, unless the layout states all hosts' links.
TrainingPlan with_measured_transfers(TrainingPlan plan, std::span<const EdgeTime> edges) {
  const auto known = [&](const std::string& host) {
    return host == plan.hosts.back() || plan.conditions.links.contains(host);
  };
  if (std::ranges::all_of(plan.hosts, known)) return plan;
  for (PlannedEdge& edge : plan.train.edges) {
    const auto measured = std::ranges::find(edges, edge.op, &EdgeTime::op);
    if (measured != edges.end()) edge.plan.predicted_seconds = measured->seconds;
  }
  return plan;
}

std::uint64_t most_memory(const TrainingPlan& plan) {
  std::uint64_t most = 0;
  for (const Program& program : plan.train.programs)
    most = std::max(most, device_memory(plan, program.device));
  return most;
}

/// Returns, by actor, the bytes on its fullest device that the simulation does not count.
std::vector<double> uncounted_memory(const TrainingPlan& plan,
                                     const ScheduleSimulation& simulation) {
  std::vector<double> result(simulation.actors.size(), 0);
  const Partition& partition = plan.partition;
  for (const StageId stage : partition.mesh_of_stage.ids()) {
    if (stage.value() >= partition.num_schedule_stages()) continue;
    double most = 0;
    for (const transfer::DeviceId device :
         partition.meshes[partition.mesh_of_stage[stage]].devices()) {
      most = std::max<double>(most, device_memory(plan, device));
    }
    const std::size_t actor = plan.schedule.actor_of_stage[stage.value()];
    result[actor] = most - simulation.actors[actor].peak;
  }
  return result;
}

/// Returns the costs of whole microbatches, if `costs` are those of halves that run as compounds.
ScheduleCosts costs_of_wholes(const ScheduleCosts& costs) {
  ScheduleCosts wholes = costs;
  scale_microbatch(wholes, 2);
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    StageCosts& whole = wholes.stages[s];
    const auto time_of = [&](ActionKind kind) {
      const Action members[] = {{static_cast<int>(s), kind, 0}, {static_cast<int>(s), kind, 1}};
      const CompoundCosts* compound = find_compound(costs, members);
      return compound != nullptr ? compound->time
                                 : 2 * (duration(costs, members[0]) - costs.dispatch_time);
    };
    whole.forward = time_of(ActionKind::kForward);
    whole.input_grad = time_of(ActionKind::kInputGrad);
    whole.weight_grad = time_of(ActionKind::kWeightGrad);
    whole.hidden = std::clamp(whole.input_grad + whole.weight_grad - time_of(ActionKind::kBackward),
                              0.0, whole.weight_grad);
    // An I includes its recomputation.
    if (whole.recomputes) whole.input_grad = std::max(whole.input_grad - whole.recompute, 0.0);
  }
  // A compound uses all tensors at its beginning.
  for (EdgeCosts& edge : wholes.edges)
    for (TensorTiming* timing : {&edge.forward_timing, &edge.backward_timing})
      timing->needed_at = timing->needed_at_weights = 0;
  wholes.dispatch_time *= 2;
  return wholes;
}

/// Search for one measured plan.
class ScheduleFinder {
 public:
  ScheduleFinder(const TrainingPlan& plan, ScheduleCosts costs) : plan_(plan) {
    const Schedule schedule = schedule_before_duplex(plan);
    request_.actor_of_stage = schedule.actor_of_stage;
    request_.microbatches = schedule.microbatches;
    request_.costs = std::move(costs);
    request_.simulation = simulation_options_of(plan);
    request_.vocabulary = plan.layout.vocabulary;
    request_.budget =
        search_budget(request_.actor_of_stage.size(), request_.microbatches) / (3 * kRungs);
    now_ = simulate(schedule, request_.costs, request_.simulation);
  }

  std::optional<ScheduleImprovement> find(const Replan& again) {
    std::vector<double> uncounted = uncounted_memory(plan_, now_);
    for (int attempt = 0; attempt < kCorrections; ++attempt) {
      std::optional<SearchResult> best = search(uncounted);
      if (!best || best->simulation.step_time >= now_.step_time / kAboutAsFast) return std::nullopt;
      ParallelConfig layout = plan_.layout;
      layout.own_schedule = best->schedule;
      if (plan_.partition.vocabulary)
        layout.vocabulary_times = vocabulary_times(request_.costs, request_.actor_of_stage);
      layout.memory.reset();  // The memory limit is checked below.
      TrainingPlan found = again(layout);
      found.layout.memory = plan_.layout.memory;
      if (!find_device_beyond_memory(found)) {
        const std::uint64_t memory = most_memory(found);
        return ScheduleImprovement{std::move(found),          best->improved_from, now_.makespan,
                                   best->simulation.makespan, most_memory(plan_),  memory};
      }
      const std::vector<double> more = uncounted_memory(found, best->simulation);
      for (std::size_t actor = 0; actor < more.size(); ++actor)
        uncounted[actor] = std::max(uncounted[actor], more[actor]);
    }
    return std::nullopt;
  }

 private:
  static constexpr int kRungs = 3;
  static constexpr int kCorrections = 6;
  /// Ratio of step times within which two schedules count as equally fast.
  static constexpr double kAboutAsFast = 1.005;

  /// Searches with the memory of the plan's own schedule, then with twice as much, then with all
  /// memory. Returns the first result that is about as fast as the fastest.
  std::optional<SearchResult> search(const std::vector<double>& uncounted) {
    std::vector<SearchResult> found;
    for (int rung = 0; rung < kRungs; ++rung) {
      SearchRequest request = request_;
      for (std::size_t actor = 0; actor < uncounted.size(); ++actor) {
        double cap = std::numeric_limits<double>::infinity();
        if (rung < kRungs - 1) cap = (rung + 1) * now_.actors[actor].peak;
        if (plan_.layout.memory) cap = std::min(cap, *plan_.layout.memory - uncounted[actor]);
        request.memory_of_actor.push_back(cap);
      }
      try {
        found.push_back(search_schedule(request));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kResourceExhausted) throw;
        continue;
      }
      if (found.back().simulation.makespan <= kAboutAsFast * found.back().bound) break;
    }
    const auto step = [](const SearchResult& result) { return result.simulation.step_time; };
    const auto fastest = std::ranges::min_element(found, {}, step);
    if (fastest == found.end()) return std::nullopt;
    const double enough = kAboutAsFast * fastest->simulation.step_time;
    return *std::ranges::find_if(
        found, [&](const SearchResult& result) { return step(result) <= enough; });
  }

  const TrainingPlan& plan_;
  SearchRequest request_;
  ScheduleSimulation now_;
};

}  // namespace

std::optional<ScheduleImprovement> find_schedule(const TrainingPlan& plan,
                                                 std::span<const ActionTime> actions,
                                                 std::span<const EdgeTime> edges,
                                                 const Replan& again) {
  // The cost model only places tensors within actions. The lengths of actions were measured.
  ScheduleCosts costs = plan_costs(with_measured_transfers(plan, edges), cost_model_seconds(1e11));
  scale_to_measured(costs, plan, measured_stages(plan, actions, CollectiveTime::kIncluded));
  if (plan.layout.duplex == Duplex::kHalves) costs = costs_of_wholes(costs);
  return ScheduleFinder(plan, std::move(costs)).find(again);
}

}  // namespace weft::mesh
