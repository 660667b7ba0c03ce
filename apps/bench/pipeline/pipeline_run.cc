#include "apps/bench/pipeline/pipeline_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/bench/pipeline/workload_costs.h"
#include "core/base/error.h"
#include "core/base/statistics.h"
#include "core/base/units.h"
#include "mesh/costs/plan_costs.h"
#include "mesh/costs/program_seconds.h"
#include "mesh/schedule/late_reductions.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/simulate.h"
#include "mesh/search/search.h"

namespace weft::apps {
namespace {

constexpr std::string_view kAuto = "auto";
/// Schedule that runs F, I and W as separate actions.
constexpr std::string_view kSplitBackwardSchedule = "zb-h1";
/// Largest ratio of a found schedule's time to a named one's at which the found one is preferred.
constexpr double kWorthwhile = 0.99;

mesh::PipelineExecutorOptions group_options(const PipelineModel& model) {
  mesh::PipelineExecutorOptions options;
  options.device.kind = model.emulated ? DeviceKind::kEmulated : DeviceKind::kCpu;
  options.device.flops_per_second = model.device_flops;
  options.conditions = model.conditions;
  // The links are shaped. Measurements under earlier arms must not influence later ones.
  options.replan_for_network = false;
  return options;
}

PipelineModel with_links(PipelineModel model, std::uint64_t link_bits) {
  if (link_bits == 0) return model;
  for (const auto& [host, devices] : hosts_of(model))
    model.conditions.links[host] = goodput(link_bits);
  return model;
}

/// Returns the peak memory of a device, all of it in scaled bytes.
std::uint64_t peak_bytes(const mesh::TrainingPlan& plan, const PipelineModel& model) {
  double peak = 0;
  for (const mesh::Program& program : plan.train.programs) {
    double weights = 0;
    for (const mesh::PersistentBlock& block : program.persistents)
      weights += static_cast<double>(block.bytes);
    if (!model.scaled_weights) weights /= model.byte_scale;
    peak = std::max(peak, static_cast<double>(program.arena_bytes) + weights);
  }
  return static_cast<std::uint64_t>(peak);
}

/// Returns the compute seconds of the busiest mesh.
double busiest(const mesh::StepResult& step, const std::vector<int>& mesh_of_stage) {
  std::map<int, double> by_mesh;
  for (const mesh::ActionTime& time : step.action_times)
    by_mesh[mesh_of_stage.at(time.stage)] += time.seconds * time.count;
  double most = 0;
  for (const auto& [mesh, seconds] : by_mesh) most = std::max(most, seconds);
  return most;
}

template <typename T, typename Get>
double median_of(const std::vector<T>& items, Get&& get) {
  std::vector<double> values;
  for (const T& item : items) values.push_back(get(item));
  return median(std::move(values));
}

}  // namespace

PipelineRun::PipelineRun(TestCluster* cluster, const PipelineModel& model, Options options)
    : model_(with_links(model, options.link_bits)), options_(std::move(options)) {
  if (cluster == nullptr) use(model_.layout);
  else
    group_.emplace(cluster->cluster(), model_.layout, model_.graphs, encode(model_.batches),
                   group_options(model_));
}

void PipelineRun::use(const mesh::ParallelConfig& layout) {
  if (group_) group_->switch_layout(layout);
  else
    planned_ = make_training_plan(
        layout, model_.graphs, mesh::predict_places(layout, hosts_of(model_)), model_.conditions);
}

mesh::ParallelConfig PipelineRun::layout_of(const Arm& arm) const {
  mesh::ParallelConfig layout = model_.layout;
  layout.resharding = arm.strategy;
  layout.lowering = arm.lowering;
  layout.payload = arm.payload;
  return layout;
}

void PipelineRun::install(const Arm& arm, const mesh::Schedule& schedule) {
  mesh::ParallelConfig layout = layout_of(arm);
  layout.own_schedule = schedule;
  layout.vocabulary_times = vocabulary_times_;
  use(layout);
}

std::vector<mesh::StepResult> PipelineRun::take_steps(int count) {
  std::vector<mesh::StepResult> results;
  for (int i = 0; i < count; ++i) {
    if (options_.stop.stop_requested()) throw_error(ErrorCode::kCancelled, "interrupted");
    mesh::StepRequest request;
    request.program = mesh::kTrainProgram;
    request.step = ++step_;
    request.optimizer.number = step_;
    request.optimizer.learning_rate = 1e-4;
    request.optimizer.clip_norm = 1;
    results.push_back(group_->run(request));
  }
  return results;
}

mesh::Schedule PipelineRun::named(const std::string& name, int microbatches) const {
  const std::vector<int> mesh_of_stage = model_.layout.mesh_of_stage();
  const int meshes = model_.layout.meshes.size();
  mesh::ScheduleRequest request{name, meshes, microbatches,
                                static_cast<int>(mesh_of_stage.size()) / meshes, 0};
  request.vocabulary = model_.layout.vocabulary;
  if (vocabulary_times_) request.vocabulary_times = *vocabulary_times_;
  return mesh::make_schedule(request);
}

std::string PipelineRun::measured_under(const Arm& arm) {
  return arm.schedule == kAuto ? std::string(kSplitBackwardSchedule) : arm.schedule;
}

mesh::ScheduleCosts PipelineRun::costs_of(const mesh::TrainingPlan& plan,
                                          const std::string& schedule) {
  return model_.emulated ? emulated_costs(plan, model_.device_flops)
                         : measured_costs(plan, measured(schedule));
}

const std::vector<mesh::ActionTime>& PipelineRun::measured(const std::string& schedule) {
  const auto [times, is_new] = measured_.try_emplace(schedule);
  if (is_new) {
    const mesh::ParallelConfig before = plan().layout;
    install({schedule, transfer::ReshardAlgorithm::kWeft, mesh::Lowering::kLanes,
             mesh::Payload::kSignals},
            named(schedule, model_.layout.microbatches));
    take_steps(1);
    times->second = take_steps(1).front().action_times;
    use(before);
  }
  return times->second;
}

double PipelineRun::slowest_stage_seconds() {
  std::map<int, double> by_mesh;
  for (const mesh::ActionTime& time : measured(std::string(kSplitBackwardSchedule)))
    by_mesh[model_.layout.mesh_of_stage().at(time.stage)] += time.seconds;
  double most = 0;
  for (const auto& [mesh, seconds] : by_mesh) most = std::max(most, seconds);
  return most;
}

mesh::Schedule PipelineRun::search(const Arm& arm, ArmResult& result) {
  mesh::SearchRequest request;
  request.actor_of_stage = model_.layout.mesh_of_stage();
  request.microbatches = model_.layout.microbatches;
  request.memory_of_actor.assign(model_.layout.meshes.size(), 0);
  std::vector<std::string> names =
      arm.memory_limit_of.empty() ? options_.schedules : std::vector{arm.memory_limit_of};
  std::erase(names, kAuto);
  if (names.empty()) names.emplace_back("1f1b");
  for (const std::string& name : names) {
    const mesh::Schedule schedule = named(name, request.microbatches);
    if (request.costs.stages.empty()) {
      install(arm, schedule);
      request.costs = costs_of(plan(), std::string(kSplitBackwardSchedule));
      request.simulation = mesh::simulation_options_of(plan());
    }
    const mesh::ScheduleSimulation one = simulate(schedule, request.costs, request.simulation);
    for (std::size_t actor = 0; actor < one.actors.size(); ++actor)
      request.memory_of_actor[actor] =
          std::max(request.memory_of_actor[actor], one.actors[actor].peak);
  }
  mesh::SearchResult found = search_schedule(request);
  // Prefers a named schedule unless the search gains enough; costs unknown to the simulator may
  // exceed a small gain.
  for (const mesh::SearchCandidate& candidate : found.named) {
    if (!candidate.fits || found.simulation.makespan < kWorthwhile * candidate.makespan) continue;
    result.note = fmt::format("auto: {}", candidate.name);
    return named(candidate.name, request.microbatches);
  }
  result.note = fmt::format("auto: improved from {}", found.improved_from);
  return std::move(found.schedule);
}

ArmResult PipelineRun::run(const Arm& arm) {
  ArmResult result;
  result.arm = arm;
  if (model_.layout.vocabulary != mesh::VocabularyMode::kLast) {
    install(arm, named(arm.schedule, model_.layout.microbatches));
    // May install another plan meanwhile.
    const mesh::ScheduleCosts costs = costs_of(plan(), measured_under(arm));
    vocabulary_times_ = mesh::vocabulary_times(costs, plan().schedule.actor_of_stage);
  }
  mesh::Schedule schedule =
      arm.schedule == kAuto ? search(arm, result) : named(arm.schedule, model_.layout.microbatches);
  if (arm.reductions == Reductions::kAtTheEnd) {
    schedule = mesh::with_late_reductions(std::move(schedule));
    result.note = "reductions at the end";
  }
  if (!model_.emulated) measured(measured_under(arm));
  install(arm, schedule);
  result.predicted_seconds = model_.emulated ? emulated_step(plan(), model_.device_flops)
                                             : measured_step(plan(), measured(measured_under(arm)));
  result.peak_bytes = peak_bytes(plan(), model_);
  if (options_.link_bits > 0) result.link_seconds = mesh::busiest_link_seconds(plan());
  for (const auto& actions : schedule.actors)
    result.actions = std::max<std::int64_t>(result.actions, std::ssize(actions));
  if (group_) measure(result);
  else result.busiest_seconds = emulated_busiest(plan(), model_.device_flops);
  if (options_.progress) {
    options_.progress(fmt::format("{}, {}: {}by the simulator {}", model_.name, to_string(arm),
                                  group_ ? format_seconds(result.median()) + ", " : "",
                                  format_seconds(result.predicted_seconds)));
  }
  return result;
}

void PipelineRun::measure(ArmResult& result) {
  take_steps(1);
  const std::vector<mesh::StepResult> steps = take_steps(options_.steps);
  for (const mesh::StepResult& step : steps) result.seconds.push_back(step.seconds);
  result.busiest_seconds = median_of(steps, [&](const mesh::StepResult& step) {
    return busiest(step, model_.layout.mesh_of_stage());
  });
  result.hidden_share =
      median_of(steps, [](const mesh::StepResult& step) { return step.hidden_share(); });
}

double PipelineRun::unhidable_seconds() {
  if (model_.layout.vocabulary != mesh::VocabularyMode::kLast) return 0;
  const bool one_stage = model_.layout.stages.size() == model_.layout.meshes.size();
  const Arm arm{one_stage ? "1f1b" : model_.layout.schedule};
  install(arm, named(arm.schedule, model_.layout.microbatches));
  mesh::ScheduleCosts costs = costs_of(plan(), arm.schedule);
  const mesh::Schedule alone = named(arm.schedule, 1);
  const double with = simulate(alone, costs).makespan;
  for (mesh::EdgeCosts& edge : costs.edges) edge.forward = edge.backward = 0;
  return with - simulate(alone, costs).makespan;
}

}  // namespace weft::apps
