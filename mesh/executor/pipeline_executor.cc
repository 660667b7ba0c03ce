#include "mesh/executor/pipeline_executor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace weft::mesh {
namespace {

/// Time after a symptom within which its cause may still be reported.
constexpr Nanoseconds kRootCauseTimeout = std::chrono::milliseconds(500);
/// Time within which a live device finishes its work after another device died.
constexpr Nanoseconds kRecoveryAnswerTimeout = std::chrono::seconds(10);

actors::RunRecoveryOptions no_restarts() {
  actors::RunRecoveryOptions options;
  options.config.restarts = 0;
  return options;
}

}  // namespace

void PipelineExecutor::rethrow_root_cause(const Error& error) {
  Error cause = error;
  if (const auto told = cluster_.failures().first(
          is_secondary_failure(error) ? kRootCauseTimeout : Nanoseconds::zero()))
    cause = *told;
  // The message of a device names its processor, "GPU 0", of which each host has one.
  if (cause.code() == ErrorCode::kResourceExhausted && !cause.actor().empty())
    cause = Error(cause.code(), fmt::format("{}: {}", cause.actor(), cause.message()));
  installer_.cancel_collectives(cause);
  throw Error(cause);
}

PipelineExecutor::PipelineExecutor(actors::Cluster& cluster, const ParallelConfig& layout,
                                   const ModelGraphs& model, const std::vector<std::byte>& batches,
                                   const PipelineExecutorOptions& options,
                                   std::optional<TrainingPlan> planned)
    : cluster_(cluster),
      options_(options),
      none_(cluster, no_restarts()),
      recovery_(options.recovery.run != nullptr ? *options.recovery.run : none_),
      devices_(cluster, layout.meshes, batches,
               std::max<Nanoseconds>(kRecoveryAnswerTimeout, options.progress.no_progress)),
      installer_(devices_, layout, options.conditions, model, options.device),
      runner_(devices_, options.progress),
      background_(devices_, runner_),
      snapshots_(devices_, installer_, runner_, background_) {
  std::optional<Error> error;
  try {
    guarded([&] { start(std::move(planned)); });
    adopted_step_ = snapshots_.newest_step();
    return;
  } catch (const Error& thrown) {
    error = thrown;
  }
  if (!recovers_from(*error)) throw Error(*error);
  const Recovered recovered = recover(*error);
  adopted_step_ = recovered.kept_step;
  if (options_.recovery.on_early_recovery) options_.recovery.on_early_recovery(recovered);
}

void PipelineExecutor::start(std::optional<TrainingPlan> planned) {
  if (options_.recovery.adopt_existing) {
    devices_.adopt_devices();
    recovery_.adopt(devices_);
  } else {
    recovery_.start(devices_);
  }
  devices_.find_devices();
  begin(std::move(planned));
}

void PipelineExecutor::begin(std::optional<TrainingPlan> planned) {
  installer_.connect();
  if (options_.recovery.adopt_existing) snapshots_.fetch_manifest();
  installer_.make_plan(std::move(planned));
  if (!snapshots_.adopt()) installer_.drop_copies_beyond_memory();
  copies_ = plan().copies_checkpoints();
  installer_.install_all();
  initialize();
  snapshots_.publish_manifest();
  installer_.clear_outdated();
  begun_ = true;
}

void PipelineExecutor::initialize() {
  ProgramRunner::wait(
      devices_.all().within(actors::kNoDeadline).call<&DeviceActor::initialize>(options_.seed),
      runner_.watch(StepRequest{}, "the initialisation", nullptr));
  traces_.measure_clocks(devices_);
}

StepResult PipelineExecutor::run(StepRequest request) {
  return guarded([&] {
    request = runner_.number(std::move(request));
    const bool trains = request.program == kTrainProgram;
    std::vector<StepReport> reports =
        runner_.run(request, fmt::format("step {} of '{}'", request.step, request.program),
                    trains ? plan().train.programs : plan().validate.programs);
    traces_.add(reports, plan());
    StepResult result = combine(reports);
    if (!trains) return result;
    recovery_.step_done();
    if (options_.replan_for_network && ++steps_ == next_network_check_) {
      next_network_check_ *= 2;
      result.note = installer_.replan_for_network(result.egress_rates);
    }
    apply_tuner(result);
    return result;
  });
}

void PipelineExecutor::apply_tuner(StepResult& result) {
  ScheduleTuner::Advice advice = tuner_.after_step(
      plan(), result, [&](const ParallelConfig& layout) { return installer_.plan_for(layout); });
  if (advice.plan) installer_.switch_to(std::move(*advice.plan));
  if (!advice.note.empty()) result.note += (result.note.empty() ? "" : "; ") + advice.note;
}

void PipelineExecutor::switch_layout(const ParallelConfig& layout) {
  guarded([&] {
    check_compatible_layouts(plan().layout, layout);
    installer_.switch_to(installer_.plan_for(layout));
    tuner_ = ScheduleTuner();
  });
}

void PipelineExecutor::copy_state() {
  guarded([&] { runner_.run(plan().checkpoint_copy, "the copy for a checkpoint"); });
}

void PipelineExecutor::gather(const ReadStateSlice& take, const std::stop_token& stop) {
  for (const CheckpointBatch& batch : installer_.checkpoint()) {
    if (copies_) gather_in_background(batch, stop);
    else guarded([&] { runner_.run_with_driver(batch.gather, installer_.driver()); });
    read_batch(batch, installer_.driver().checkpoint_buffer(), take);
  }
}

void PipelineExecutor::gather_in_background(const CheckpointBatch& batch,
                                            const std::stop_token& stop) {
  std::optional<Error> error;
  try {
    background_.gather(batch.gather.front().name, installer_.driver(), stop);
    return;
  } catch (const Error& thrown) {
    error = thrown;
  }
  // While a step runs, its caller reports failures.
  const bool waits = is_secondary_failure(*error) && !stop.stop_requested();
  if (const auto cause = cluster_.failures().first(waits ? kRootCauseTimeout : Nanoseconds::zero()))
    error = *cause;
  throw *error;
}

void PipelineExecutor::restore(const WriteStateSlice& give, std::int64_t /*steps_done*/) {
  snapshots_.discard();
  for (const CheckpointBatch& batch : installer_.checkpoint()) {
    fill_batch(batch, installer_.driver().checkpoint_buffer(), give);
    guarded([&] { runner_.run_with_driver(batch.scatter, installer_.driver()); });
  }
}

void PipelineExecutor::snapshot_state(std::int64_t steps_done) {
  guarded([&] { snapshots_.after_step(steps_done, options_.recovery.copy_every); });
}

void PipelineExecutor::restore_snapshot() {
  guarded([&] { snapshots_.restore(); });
}

void PipelineExecutor::reset_parameters() {
  snapshots_.discard();
  guarded([&] { initialize(); });
}

bool PipelineExecutor::recovers_from(const Error& error) const {
  return recovery_.recovers_from(error);
}

PipelineExecutor::Recovered PipelineExecutor::recover(const Error& why) {
  snapshots_.cancel_replication();
  std::set<std::string> hosts;
  const auto mended = recovery_.recover(why, devices_, [&] { guarded([&] { reconnect(hosts); }); });
  return {mended.cause, fmt::format("{}", fmt::join(hosts, ", ")), mended.restart, mended.most,
          snapshots_.newest_step()};
}

void PipelineExecutor::reconnect(std::set<std::string>& hosts) {
  devices_.find_devices();
  for (const transfer::DeviceId device : devices_.new_devices()) {
    hosts.insert(devices_.host_of(device));
    installer_.mark_outdated(device);
    snapshots_.add_device(device);
  }
  if (!begun_) return begin({});
  installer_.connect();
  installer_.adapt_plan();
  traces_.measure_clocks(devices_);
  traces_.clear();
}

void PipelineExecutor::release() {
  snapshots_.cancel_replication();
  installer_.disconnect();
  devices_.end_processes();
}

}  // namespace weft::mesh
