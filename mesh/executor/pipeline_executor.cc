#include "mesh/executor/pipeline_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/units.h"
#include "mesh/executor/memory_forecast.h"
#include "mesh/plan/observed_network.h"
#include "mesh/plan/plan_memory.h"

namespace weft::mesh {
namespace {

/// Time after a symptom within which its cause may still be reported.
constexpr Nanoseconds kRootCauseTimeout = std::chrono::milliseconds(500);
/// Time within which a possibly stuck device must report its position.
constexpr Nanoseconds kProgressAnswerTimeout = std::chrono::seconds(2);

/// Time within which a live device finishes its work after another device died.
constexpr Nanoseconds kRecoveryAnswerTimeout = std::chrono::seconds(10);

actors::RunRecoveryOptions no_restarts() {
  actors::RunRecoveryOptions options;
  options.config.restarts = 0;
  return options;
}

/// Measures the driver's clock minus the device's, from the fastest of five round trips.
std::int64_t measure_clock(const actors::ActorRef<DeviceActor>& actor) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), offset = 0;
  for (int i = 0; i < 5; ++i) {
    const std::int64_t before = SteadyClock().now().time_since_epoch().count();
    const std::int64_t there = actor.call<&DeviceActor::clock>().get();
    const std::int64_t after = SteadyClock().now().time_since_epoch().count();
    if (after - before >= best) continue;
    best = after - before;
    offset = (before + after) / 2 - there;
  }
  return offset;
}

bool same_flows(const Compiled& before, const Compiled& after) {
  return std::ranges::equal(
      before.edges, after.edges,
      [](const PlannedEdge& a, const PlannedEdge& b) { return a.plan.flows == b.plan.flows; });
}

/// Waits for a call to all devices while they make progress.
template <typename Result>
Result watched(actors::Future<Result> future, StallMonitor watch) {
  try {
    while (!future.wait_for(watch.interval())) watch.poll_devices();
  } catch (...) {
    future.cancel();
    throw;
  }
  return future.get();
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
  cancel_collectives(cause);
  throw Error(cause);
}

PipelineExecutor::PipelineExecutor(actors::Cluster& cluster, const ParallelConfig& layout,
                                   const ModelGraphs& model, const std::vector<std::byte>& batches,
                                   const PipelineExecutorOptions& options,
                                   std::optional<TrainingPlan> planned)
    : cluster_(cluster),
      options_(options),
      layout_(layout),
      model_(model),
      none_(cluster, no_restarts()),
      recovery_(options.recovery.run != nullptr ? *options.recovery.run : none_),
      devices_(cluster, layout.meshes, batches,
               std::max<Nanoseconds>(kRecoveryAnswerTimeout, options.progress.no_progress)) {
  std::optional<Error> error;
  try {
    guarded([&] {
      if (options_.recovery.adopt_existing) {
        devices_.adopt_devices();
        recovery_.adopt(devices_);
      } else {
        recovery_.start(devices_);
      }
      devices_.find_devices();
      begin(std::move(planned));
    });
    if (const auto slot = newest_snapshot()) adopted_step_ = snapshots_[*slot].step;
    return;
  } catch (const Error& thrown) {
    error = thrown;
  }
  if (!recovers_from(*error)) throw Error(*error);
  const Recovered recovered = recover(*error);
  adopted_step_ = recovered.kept_step;
  if (options_.recovery.on_early_recovery) options_.recovery.on_early_recovery(recovered);
}

/// Begins with devices that are all new or were adopted from another driver.
void PipelineExecutor::begin(std::optional<TrainingPlan> planned) {
  const DeviceNumbering numbering = number_devices(layout_, devices_.places());
  driver_.reset();
  driver_ = devices_.open(numbering, options_.device);
  if (options_.recovery.adopt_existing) fetch_manifest();
  plan_ = plan_for(layout_, numbering, std::move(planned));
  open_communicators(devices_.meshes(), plan_, ledger_);
  if (adopted_manifest_) adopt_snapshots(*adopted_manifest_);
  else drop_copies_beyond_memory();
  copies_ = plan_.copies_checkpoints();
  checkpoint_ = plan_.checkpoint;
  for (const auto* programs : plan_.all_programs()) install(*programs);
  initialize();
  publish_manifest();
  outdated_.clear();
  begun_ = true;
}

/// Returns the devices' places, or nothing if none is a GPU.
std::vector<transfer::DeviceCapabilities> PipelineExecutor::find_gpus() const {
  const DeviceKind kind = options_.device.kind;
  if (kind != DeviceKind::kCuda && kind != DeviceKind::kAuto) return {};
  std::vector<transfer::DeviceCapabilities> places = collect_device_places(devices_.meshes());
  if (std::ranges::none_of(places, &transfer::DeviceCapabilities::is_gpu)) return {};
  return places;
}

/// Returns `planned` if it matches the devices' places, else a new plan.
TrainingPlan PipelineExecutor::plan_for(ParallelConfig layout, const DeviceNumbering& numbering,
                                        std::optional<TrainingPlan> planned) const {
  layout.device_places = find_gpus();
  if (planned && planned->hosts == numbering.hosts && planned->topology == numbering.topology &&
      planned->layout.device_places == layout.device_places)
    return std::move(*planned);
  return make_training_plan(layout, model_, devices_.places());
}

/// Drops copies if a machine lacks memory for them: first those for recovery, then those for
/// checkpoints. Called before the run allocates memory.
void PipelineExecutor::drop_copies_beyond_memory() {
  if (!plan_.snapshots.empty())
    if (auto why = find_short_machine()) drop_kept_state(plan_, std::move(*why));
  if (plan_.copies_checkpoints())
    if (auto why = find_short_machine()) drop_checkpoint_copies(plan_, std::move(*why));
}

/// Returns why a machine lacks memory for the plan's copies, or nothing.
std::optional<std::string> PipelineExecutor::find_short_machine() const {
  std::map<std::string, MemoryForecast> machines;
  const auto free = devices_.all().call<&DeviceActor::available_memory>().get();
  for (std::uint32_t i = 0; i < free.size(); ++i) {
    const transfer::DeviceId device(i);
    MemoryForecast& machine = machines[devices_.machine_of(device)];
    const std::uint64_t copies =
        checkpoint_copy_bytes(plan_, device) + snapshot_bytes(plan_.snapshots, device);
    machine.copies += copies;
    machine.needed += host_memory(plan_, device) - copies;
    if (free[i]) machine.free = std::min(machine.free.value_or(*free[i]), *free[i]);
  }
  if (const auto here = machines.find(machine_name()); here != machines.end())
    here->second.needed += checkpoint_buffer_bytes(plan_.checkpoint);
  return find_memory_shortage(machines);
}

void PipelineExecutor::install(const std::vector<Program>& programs, On devices) {
  std::vector<actors::Future<void>> pending;
  for (const Program& program : programs) {
    if (devices == On::kOutdatedDevices && program.device != plan_.driver() &&
        !outdated_.contains(program.device))
      continue;
    if (program.device == plan_.driver()) driver_->install(program);
    else pending.push_back(devices_.at(program.device).call<&DeviceActor::install>(program));
  }
  for (auto& future : pending) future.get();
}

std::set<transfer::DeviceId> PipelineExecutor::all_devices() const {
  std::set<transfer::DeviceId> devices;
  for (std::uint32_t i = 0; i < devices_.size(); ++i) devices.insert(transfer::DeviceId(i));
  return devices;
}

void PipelineExecutor::initialize() {
  watched(devices_.all().within(actors::kNoDeadline).call<&DeviceActor::initialize>(options_.seed),
          watch(StepRequest{}, "the initialisation", nullptr));
  measure_clocks();
}

void PipelineExecutor::measure_clocks() {
  clock_offsets_.clear();
  for (std::uint32_t i = 0; i < devices_.size(); ++i)
    clock_offsets_.push_back(measure_clock(devices_.at(transfer::DeviceId(i))));
}

StepResult PipelineExecutor::run(StepRequest request) {
  return guarded([&] {
    request.execution_number = ++runs_;
    const bool trains = request.program == kTrainProgram;
    const std::vector<Program>& programs = trains ? plan_.train.programs : plan_.validate.programs;
    std::vector<StepReport> reports = run_step(
        request,
        watch(request, fmt::format("step {} of '{}'", request.step, request.program), &programs));
    remember_traces(reports);
    StepResult result = combine(reports);
    if (!trains) return result;
    recovery_.step_done();
    if (options_.replan_for_network && ++steps_ == next_network_check_) {
      next_network_check_ *= 2;
      result.note = replan_for_network(result.egress_rates);
    }
    apply_tuner(result);
    return result;
  });
}

void PipelineExecutor::switch_layout(const ParallelConfig& layout) {
  guarded([&] {
    check_compatible_layouts(plan_.layout, layout);
    ParallelConfig other = layout;
    other.device_places = plan_.layout.device_places;
    other.checkpoint_copy_mode = plan_.layout.checkpoint_copy_mode;
    other.snapshot_mode = plan_.layout.snapshot_mode;
    install_plan(make_training_plan(other, model_, devices_.places(), plan_.network));
    tuner_ = ScheduleTuner();
  });
}

/// Replaces the plan but keeps its checkpoint programs, which a gather() may be using.
void PipelineExecutor::replace_plan(TrainingPlan plan) {
  plan.checkpoint = std::move(plan_.checkpoint);
  plan.checkpoint_copy = std::move(plan_.checkpoint_copy);
  plan.no_copies_reason = std::move(plan_.no_copies_reason);
  plan.snapshots = std::move(plan_.snapshots);
  plan.no_snapshots_reason = std::move(plan_.no_snapshots_reason);
  plan_ = std::move(plan);
}

/// Installs `plan`, which may differ only in the programs "train" and "validate".
void PipelineExecutor::install_plan(TrainingPlan plan) {
  open_communicators(devices_.meshes(), plan, ledger_);
  replace_plan(std::move(plan));
  outdated_ = all_devices();
  install(plan_.train.programs);
  install(plan_.validate.programs);
  outdated_.clear();
}

/// Replans the transfers if the network differs from the plan's. Returns a note for the user, or ""
/// if no transfer changed.
std::string PipelineExecutor::replan_for_network(const std::vector<double>& egress_rates) {
  const transfer::Network network = observed_network(plan_, egress_rates);
  if (network == plan_.network) return "";
  std::string text = describe_change(plan_, network);
  TrainingPlan changed = make_training_plan(plan_.layout, model_, devices_.places(), network);
  if (same_flows(plan_.train, changed.train) && same_flows(plan_.validate, changed.validate)) {
    replace_plan(std::move(changed));
    return "";
  }
  install_plan(std::move(changed));
  return text + "; transfers were planned again";
}

/// Applies the tuner's advice after a training step.
void PipelineExecutor::apply_tuner(StepResult& result) {
  ScheduleTuner::Advice advice =
      tuner_.after_step(plan_, result, [&](const ParallelConfig& layout) {
        return make_training_plan(layout, model_, devices_.places(), plan_.network);
      });
  if (advice.plan) install_plan(std::move(*advice.plan));
  if (!advice.note.empty()) result.note += (result.note.empty() ? "" : "; ") + advice.note;
}

void PipelineExecutor::copy_state() {
  guarded([&] {
    StepRequest request;
    request.program = plan_.checkpoint_copy.front().name;
    request.execution_number = ++runs_;
    run_step(request, watch(request, "the copy for a checkpoint", &plan_.checkpoint_copy));
  });
}

void PipelineExecutor::gather(const ReadStateSlice& take, const std::stop_token& stop) {
  for (const CheckpointBatch& batch : checkpoint_) {
    if (copies_) run_background_transfer(batch.gather.front().name, stop);
    else run_transfer_program(batch.gather);
    read_batch(batch, driver_->checkpoint_buffer(), take);
  }
}

void PipelineExecutor::restore(const WriteStateSlice& give, std::int64_t /*steps_done*/) {
  discard_snapshots();
  for (const CheckpointBatch& batch : checkpoint_) {
    fill_batch(batch, driver_->checkpoint_buffer(), give);
    run_transfer_program(batch.scatter);
  }
}

std::vector<DeviceTrace> PipelineExecutor::take_traces() { return std::exchange(traces_, {}); }

void PipelineExecutor::release() {
  cancel_replication();
  driver_.reset();
  devices_.end_processes();
}

/// Cancels collectives: a device that waits for a dead one in a collective cannot see the death.
void PipelineExecutor::cancel_collectives(const Error& why) {
  if (ledger_.size() == 0) return;
  for (const auto& mesh : devices_.meshes()) {
    try {
      mesh.within(kProgressAnswerTimeout)
          .call_collect<&DeviceActor::cancel_collectives>("the run has failed: " + why.message())
          .get();
    } catch (const Error&) {
      continue;  // No actor of this mesh answers; `why` says more.
    }
  }
}

PipelineExecutor::Reports PipelineExecutor::start(const StepRequest& request) {
  return devices_.all().within(actors::kNoDeadline).call<&DeviceActor::run>(request);
}

std::vector<StepReport> PipelineExecutor::run_step(const StepRequest& request, StallMonitor watch) {
  const struct Running {
    explicit Running(std::atomic<bool>& flag) : runs(flag) { runs = true; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { runs = false; }
    std::atomic<bool>& runs;
  } running(step_runs_);
  return watched(start(request), std::move(watch));
}

/// Returns the watch of an execution. `programs`: see StallMonitor::Devices.
StallMonitor PipelineExecutor::watch(const StepRequest& request, std::string what,
                                     const std::vector<Program>* programs, bool with_driver) {
  StallMonitor::Devices devices;
  devices.names = devices_.names_with_places();
  devices.names.emplace_back("the driver");
  devices.programs = programs;
  devices.ask = [this] {
    return devices_.all().within(kProgressAnswerTimeout).reports<DeviceProgress>();
  };
  devices.on_stall = [this](std::size_t device, const std::string& line) {
    const std::size_t named = device < devices_.size() ? device : 0;
    devices_.report(transfer::DeviceId(named), "no progress", line);
  };
  if (with_driver) devices.driver = [this] { return driver_->progress(); };
  return {options_.progress, request.execution_number, std::move(what), std::move(devices), clock_};
}

void PipelineExecutor::run_transfer_program(const std::vector<Program>& programs) {
  guarded([&] {
    StepRequest request;
    request.program = programs.front().name;
    request.execution_number = ++runs_;
    Reports reports = start(request);
    StallMonitor progress =
        watch(request, fmt::format("'{}' of a checkpoint", request.program), &programs, true);
    move_with_driver(request, std::move(reports), progress.interval(),
                     [&] { progress.poll_devices(); });
  });
}

/// Runs a gather program beside steps. Uses nothing of the group that a step changes. While a step
/// runs, its own watch judges progress and its caller reports failures. Between steps, the gather
/// is watched itself.
void PipelineExecutor::run_background_transfer(const std::string& program,
                                               const std::stop_token& stop) {
  std::optional<Error> error;
  try {
    const std::lock_guard alone(beside_);
    StallMonitor holds = watch(replication_request_, "the copy for recovery", nullptr);
    while (replication_ && !replication_->wait_for(std::chrono::milliseconds(20))) {
      if (stop.stop_requested()) throw_error(ErrorCode::kCancelled, "the checkpoint was cancelled");
      if (!step_runs_) holds.poll_devices();
    }
    StepRequest request;
    request.program = program;
    request.execution_number = ++runs_;
    auto done =
        devices_.all().within(actors::kNoDeadline).call<&DeviceActor::run_in_background>(request);
    StallMonitor progress =
        watch(request, fmt::format("'{}' of a checkpoint", program), nullptr, true);
    const auto on_poll = [&] {
      if (stop.stop_requested()) throw_error(ErrorCode::kCancelled, "the checkpoint was cancelled");
      if (!step_runs_) progress.poll_devices();
    };
    move_with_driver(request, std::move(done),
                     std::min<Nanoseconds>(progress.interval(), std::chrono::milliseconds(100)),
                     on_poll);
    return;
  } catch (const Error& thrown) {
    error = thrown;
  }
  if (const auto cause = cluster_.failures().first(
          is_secondary_failure(*error) && !stop.stop_requested() ? kRootCauseTimeout
                                                                 : Nanoseconds::zero()))
    error = *cause;
  throw *error;
}

/// Runs the driver's part and waits for it and for the devices' part, `done`. Calls `on_poll`
/// meanwhile, at least every `interval`. An error of any of the three cancels the rest.
template <typename Done>
void PipelineExecutor::move_with_driver(const StepRequest& request, Done done, Nanoseconds interval,
                                        const std::function<void()>& on_poll) {
  bool ended = false;
  const auto poll_both = [&] {
    on_poll();
    // A failed device does not finish its transfers, so its error ends the driver's part.
    if (ended || !done.ready()) return;
    ended = true;
    done.get();
  };
  try {
    driver_->run(request, poll_both);
    while (!ended && !done.wait_for(interval)) poll_both();
    if (!ended) done.get();
  } catch (...) {
    if (!ended) done.cancel();
    throw;
  }
}

void PipelineExecutor::remember_traces(std::vector<StepReport>& reports) {
  if (reports.empty() || reports.front().trace.empty()) return;
  if (traces_.empty()) {
    for (const Program& program : plan_.train.programs) {
      const std::size_t index = traces_.size();
      traces_.push_back({program.device_name + " on " +
                             plan_.hosts[plan_.topology.host_of(program.device).value()],
                         clock_offsets_[index],
                         {},
                         0});
    }
  }
  for (std::size_t i = 0; i < reports.size(); ++i)
    std::move(reports[i].trace.begin(), reports[i].trace.end(),
              std::back_inserter(traces_[i].events));
}

}  // namespace weft::mesh
