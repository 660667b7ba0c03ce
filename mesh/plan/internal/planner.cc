#include "mesh/plan/internal/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/plan/internal/row_coupling.h"
#include "mesh/plan/internal/sharded_model.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/plan/schedule_choice.h"
#include "mesh/plan/spanning_mesh.h"
#include "mesh/program/checkpoint_programs.h"

namespace weft::mesh {
namespace {

constexpr const char* kMemoryKey = "pipeline.memory";

void check_layers(const ParallelConfig& layout, const Graph& graph) {
  if (layout.num_layers() == graph.num_blocks()) return;
  throw Error(ErrorCode::kInvalidConfig,
              fmt::format("the stages have {} layers together, but the model has {}; change "
                          "pipeline.stages or the model",
                          layout.num_layers(), graph.num_blocks()))
      .at("pipeline.stages");
}

/// Throws if halves of a microbatch would not compute what its rows together do.
void check_rows(const ParallelConfig& layout, const Graph& graph) {
  if (layout.duplex != Duplex::kHalves) return;
  if (const auto coupling = find_row_coupling(graph))
    throw Error(ErrorCode::kInvalidConfig,
                fmt::format("halves of a microbatch would give other results, because the model "
                            "couples its rows: {}; take cross or off",
                            *coupling))
        .at("pipeline.duplex");
}

/// Returns the schedule with forwards only, which keep all dependencies between them.
Schedule forwards_of(const Schedule& schedule) {
  Schedule forwards = schedule;
  forwards.name = "forwards of " + schedule.name;
  for (std::vector<Action>& actions : forwards.actors) {
    erase_actions(actions, [](const Action& action) {
      return action.kind != ActionKind::kForward && action.kind != ActionKind::kInputForward &&
             action.kind != ActionKind::kVocabularyScores;
    });
  }
  return forwards;
}

CopyMode mode_of(bool copies) { return copies ? CopyMode::kYes : CopyMode::kNo; }

void plan_checkpoint(TrainingPlan& plan, bool copies) {
  plan.conditions.checkpoint_copies = mode_of(copies);
  plan.checkpoint = compile_checkpoint(plan.partition, plan.driver(), plan.topology,
                                       plan.conditions.checkpoint_buffer,
                                       copies ? GatherFrom::kCopies : GatherFrom::kParameters);
  plan.checkpoint_copy = copies ? compile_checkpoint_copy(plan.checkpoint) : std::vector<Program>();
}

void plan_snapshots(TrainingPlan& plan, bool copies) {
  plan.conditions.snapshots = mode_of(copies);
  plan.snapshots =
      copies ? compile_kept_state(plan.partition, plan.topology) : InMemoryCheckpoint();
}

/// Removes the copies for recovery. Returns whether all devices then fit into pipeline.memory.
bool drop_snapshots_to_fit(TrainingPlan& plan) {
  if (plan.snapshots.empty()) return false;
  std::uint64_t most = 0;
  bool fits = true;
  for (const Program& program : plan.train.programs) {
    const std::uint64_t kept = snapshot_bytes(plan.snapshots, program.device);
    const std::uint64_t counted = is_gpu(plan, program.device) ? 0 : kept;
    fits = fits && device_memory(plan, program.device) - counted <= *plan.layout.memory;
    most = std::max(most, kept);
  }
  drop_snapshots(
      plan,
      fmt::format(
          "copies of the state take up to {} on a device and would exceed pipeline.memory, {}",
          format_bytes(most), format_bytes(*plan.layout.memory)));
  return fits;
}

/// Removes copies for checkpoints if all devices then fit into pipeline.memory. Returns whether
/// they do.
bool drop_checkpoint_copies_to_fit(TrainingPlan& plan) {
  if (!plan.copies_checkpoints()) return false;
  std::uint64_t most = 0;
  for (const Program& program : plan.train.programs) {
    const std::uint64_t copies = checkpoint_copy_bytes(plan, program.device);
    const std::uint64_t counted = is_gpu(plan, program.device) ? 0 : copies;
    if (device_memory(plan, program.device) - counted > *plan.layout.memory) return false;
    most = std::max(most, copies);
  }
  drop_checkpoint_copies(plan, fmt::format("a copy of parameters and moments takes up to {} on a "
                                           "device and would exceed pipeline.memory, {}",
                                           format_bytes(most), format_bytes(*plan.layout.memory)));
  return true;
}

/// Returns the layout with `gather` set for all meshes that leave it open, or nothing if none does.
std::optional<ParallelConfig> with_gather(const ParallelConfig& layout, GatherFrequency gather) {
  ParallelConfig result = layout;
  bool changed = false;
  for (MeshConfig& mesh : result.meshes) {
    if (!mesh.layout || mesh.layout->gather) continue;
    mesh.layout->gather = gather;
    changed = true;
  }
  return changed ? std::optional(std::move(result)) : std::nullopt;
}

PlanDecision gather_decision(GatherFrequency gather, std::string reason) {
  return {PlanQuestion::kGather, fmt::format("once per {}", to_string(gather)), std::move(reason)};
}

/// `refused`: names of better schedules that need too much memory.
PlanDecision schedule_decision(const TrainingPlan& plan, const std::vector<std::string>& refused) {
  std::string reason = "its steps are measured before a faster schedule is searched";
  if (!refused.empty())
    reason += fmt::format("; pipeline.memory, {}, is too little for {}",
                          format_bytes(*plan.layout.memory), fmt::join(refused, ", "));
  return {PlanQuestion::kSchedule, "begin with " + plan.schedule.name, std::move(reason)};
}

[[noreturn]] void fail_beyond_memory(const TrainingPlan& plan) {
  const transfer::DeviceId device = *find_device_beyond_memory(plan);
  const std::uint64_t needed = device_memory(plan, device), activations = arena_bytes(plan, device);
  throw Error(ErrorCode::kInvalidConfig,
              fmt::format("schedule '{}' needs {} on {} ({} of parameters, gradients and moments, "
                          "{} of activations), but pipeline.memory is "
                          "{}; make that more, take smaller microbatches, compute activations "
                          "twice (recompute: true), or {}",
                          plan.schedule.name, format_bytes(needed),
                          plan.train.programs[device.value()].device_name,
                          format_bytes(needed - activations), format_bytes(activations),
                          format_bytes(*plan.layout.memory),
                          plan.layout.schedule == ParallelConfig::kAuto
                              ? "use more devices"
                              : "take a schedule that holds fewer microbatches"))
      .at(kMemoryKey);
}

CompileOptions options_of(const TrainingPlan& plan) {
  const ParallelConfig& layout = plan.layout;
  CompileOptions options;
  options.strategy = layout.resharding;
  options.lowering = layout.lowering;
  options.credits = layout.credits;
  options.payload = layout.payload;
  for (const StageConfig& stage : layout.stages) options.recompute.push_back(stage.recompute);
  options.network = plan.network;
  if (plan.conditions.orders_steps)
    options.op_seconds = cost_model_seconds(plan.conditions.device_flops());
  options.times = vocabulary_times(plan.partition, layout);
  return options;
}

}  // namespace

TrainingPlan Planner::make(const ParallelConfig& layout) const {
  const auto per_microbatch = with_gather(layout, GatherFrequency::kMicrobatch);
  if (!per_microbatch) return make_gathering(layout);
  std::string reason = "it holds less memory, and pipeline.memory sets no limit to judge by";
  if (layout.memory) {
    const std::string limit = format_bytes(*layout.memory);
    try {
      TrainingPlan plan = make_gathering(*with_gather(layout, GatherFrequency::kStep));
      plan.decisions.record(gather_decision(
          GatherFrequency::kStep, "it sends less, and pipeline.memory, " + limit + ", allows it"));
      return plan;
    } catch (const Error& error) {
      if (error.where() != kMemoryKey) throw;
      reason = "once per step would exceed pipeline.memory, " + limit;
    }
  }
  TrainingPlan plan = make_gathering(*per_microbatch);
  plan.decisions.record(gather_decision(GatherFrequency::kMicrobatch, std::move(reason)));
  return plan;
}

TrainingPlan Planner::make_gathering(const ParallelConfig& layout) const {
  check_layers(layout, model_.train.graph);
  check_rows(layout, model_.train.graph);
  TrainingPlan plan;
  plan.layout = layout;
  plan.conditions = conditions_;
  PartitionRequest request;
  DeviceNumbering numbering = number_devices(layout, places_);
  request.meshes = std::move(numbering.meshes);
  if (layout.vocabulary != VocabularyMode::kLast)
    request.meshes.push_back(make_spanning_mesh(layout, request.meshes));
  plan.hosts = std::move(numbering.hosts);
  plan.topology = std::move(numbering.topology);
  plan.network = conditions_.network_of(plan.hosts);
  set_graph(request, model_.train, layout);
  plan.partition = partition(request);
  plan_checkpoint(plan, conditions_.checkpoint_copies != CopyMode::kNo);
  plan_snapshots(plan, conditions_.snapshots != CopyMode::kNo);
  set_graph(request, {model_.validate, model_.validate_loss, {}}, layout);
  if (!layout.duplex_reason.empty())
    plan.decisions.record(
        {PlanQuestion::kDuplex, std::string(to_string(layout.duplex)), layout.duplex_reason});
  choose_schedule(plan, partition(request));
  record_copies(plan);
  return plan;
}

void Planner::choose_schedule(TrainingPlan& plan, const Partition& forward_only) const {
  std::vector<std::string> refused;
  const bool searches = plan.layout.searches();
  for (Schedule& schedule : candidate_schedules(plan.layout, stage_edges(plan.partition),
                                                vocabulary_times(plan.partition, plan.layout))) {
    compile_steps(plan, forward_only, std::move(schedule));
    if (!find_device_beyond_memory(plan) || drop_copies_to_fit(plan)) {
      if (searches) plan.decisions.record(schedule_decision(plan, refused));
      return;
    }
    refused.push_back(plan.schedule.name);
  }
  fail_beyond_memory(plan);
}

void Planner::compile_steps(TrainingPlan& plan, const Partition& forward_only,
                            Schedule schedule) const {
  CompileOptions options = options_of(plan);
  plan.train = compile(plan.partition, schedule, plan.topology, options);
  options.name = kValidateProgram;
  plan.validate = compile(forward_only, forwards_of(schedule), plan.topology, options);
  const std::array steps{&plan.train, &plan.validate};
  const bool through_host = plan.layout.gpu_transfers == GpuTransfers::kHost;
  plan.collectives = use_device_collectives(
      steps, through_host ? std::vector<transfer::DeviceCapabilities>() : conditions_.device_places,
      {.deterministic = conditions_.deterministic});
  plan.schedule = std::move(schedule);
}

bool Planner::drop_copies_to_fit(TrainingPlan& plan) const {
  if (conditions_.snapshots == CopyMode::kIfMemoryAllows && drop_snapshots_to_fit(plan))
    return true;
  // Prefers pauses for checkpoints to a slower schedule.
  return conditions_.checkpoint_copies == CopyMode::kIfMemoryAllows &&
         drop_checkpoint_copies_to_fit(plan);
}

void Planner::record_copies(TrainingPlan& plan) const {
  const std::string reason =
      plan.layout.memory ? "they fit into pipeline.memory, " + format_bytes(*plan.layout.memory)
                         : "pipeline.memory sets no limit";
  if (conditions_.checkpoint_copies == CopyMode::kIfMemoryAllows && plan.copies_checkpoints())
    plan.decisions.record({PlanQuestion::kCheckpointCopies, "yes", reason});
  if (conditions_.snapshots == CopyMode::kIfMemoryAllows && !plan.snapshots.empty())
    plan.decisions.record({PlanQuestion::kSnapshots, "yes", reason});
}

TrainingPlan make_training_plan(const ParallelConfig& layout, const ModelGraphs& model,
                                const MeshPlaces& places, const PlanConditions& conditions) {
  return Planner(model, places, conditions).make(layout);
}

void drop_checkpoint_copies(TrainingPlan& plan, std::string because) {
  plan_checkpoint(plan, false);
  plan.decisions.record({PlanQuestion::kCheckpointCopies, "no", std::move(because), true});
}

void drop_snapshots(TrainingPlan& plan, std::string because) {
  plan_snapshots(plan, false);
  plan.decisions.record({PlanQuestion::kSnapshots, "no", std::move(because), true});
}

}  // namespace weft::mesh
