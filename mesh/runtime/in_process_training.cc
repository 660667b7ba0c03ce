#include "mesh/runtime/in_process_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "mesh/program/stall.h"
#include "mesh/runtime/initialize.h"

namespace weft::mesh {
namespace {

/// Longest wait for asynchronous devices, as a wire may need polling.
constexpr auto kWirePollInterval = std::chrono::milliseconds(1);

}  // namespace

/// State of one device without a process of its own.
struct InProcessTraining::DeviceSide {
  DeviceSide(transfer::DeviceId self, Device& device, std::unique_ptr<transfer::Wire> wire,
             const Clock& clock, BatchSource& batches, const InProcessCollectives& with)
      : library(device.is_host_memory() || !with.make ? nullptr : with.make(self)),
        stream(device.create_stream()),
        storage(device),
        engine(std::move(wire), clock, {.mode = transfer::EngineOptions::Mode::kStepped}),
        copies(device, clock),
        resources{*stream, copies, storage, engine, batches, clock} {
    if (library == nullptr) return;
    collectives.emplace(self, *library, device, clock, with.options);
    resources.library = &*collectives;
  }

  void install(const Program& program) {
    storage.provide(program, *stream);
    if (collectives) collectives->queue.reserve_staging(collective_staging_bytes(program));
    programs[program.name] = &program;
  }

  const std::unique_ptr<transfer::DeviceCollectives> library;  ///< May be null.
  std::unique_ptr<Stream> stream;
  Storage storage;
  transfer::TransferEngine engine;
  CopyStreams copies;
  Resources resources;
  std::optional<CollectiveStream> collectives;
  std::map<std::string, const Program*> programs;
};

InProcessTraining::InProcessTraining(const TrainingPlan& plan, BatchSource& batches,
                                     std::uint64_t seed, const transfer::LoopbackOptions& options,
                                     Device* device, const InProcessCollectives& collectives)
    : plan_(&plan), batches_(batches), hub_(options), wake_flag_(std::make_shared<WakeFlag>()) {
  const std::size_t devices = plan.topology.num_devices();
  for (std::uint32_t i = 0; i < devices; ++i) {
    // The driver computes in host memory.
    Device& computes = device == nullptr || transfer::DeviceId(i) == plan.driver() ? cpu_ : *device;
    const transfer::DeviceId id(i);
    sides_.push_back(
        std::make_unique<DeviceSide>(id, computes, hub_.attach(id), clock_, batches_, collectives));
  }
  for (std::uint32_t i = 0; i < devices; ++i) {
    for (std::uint32_t j = 0; j < devices; ++j) {
      if (i == j) continue;
      sides_[i]->engine.connect(transfer::DeviceId(j), plan.topology.host_of(transfer::DeviceId(j)),
                                sides_[j]->engine.address());
    }
  }
  use(plan);
  for (const Program& program : plan.train.programs) {
    DeviceSide& side = *sides_[program.device.value()];
    initialize_parameters(program, seed, side.storage, *side.stream);
    traces_.push_back(
        {.name = fmt::format("{} on {}", program.device_name,
                             plan.hosts[plan.topology.host_of(program.device).value()])});
  }
}

InProcessTraining::~InProcessTraining() = default;

void InProcessTraining::open_communicators(const TrainingPlan& plan) {
  const std::vector<transfer::CommunicatorGroup>& groups = plan.collectives.groups;
  if (groups.empty()) return;
  std::vector<DeviceSide*> members;
  for (std::uint32_t i = 0; i < sides_.size(); ++i) {
    const auto needs = [&](const transfer::CommunicatorGroup& group) {
      return group.contains(transfer::DeviceId(i));
    };
    if (!std::ranges::any_of(groups, needs)) continue;
    if (!sides_[i]->collectives)
      throw_error(ErrorCode::kInvalidArgument,
                  "the plan needs device collectives, but none are given");
    members.push_back(sides_[i].get());
  }
  const transfer::CommunicatorChanges changes = ledger_.ensure(groups);
  std::vector<transfer::CommunicatorId> ids;
  for (DeviceSide* member : members) {
    for (transfer::CommunicatorId& id : member->collectives->queue.make_ids(changes.create))
      ids.push_back(std::move(id));
  }
  std::mutex mutex;
  std::optional<Error> failure;  // guarded by mutex
  std::vector<std::jthread> threads;
  for (DeviceSide* member : members) {
    threads.emplace_back([&, member] {
      try {
        member->collectives->queue.open(member->resources.epoch, changes, ids);
        member->collectives->queue.connect(changes.create);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = current_error();
      }
    });
  }
  threads.clear();
  if (failure) throw *failure;
}

void InProcessTraining::use(const TrainingPlan& plan) {
  plan_ = &plan;
  open_communicators(plan);
  for (const auto* programs : plan.all_programs()) install(*programs);
}

void InProcessTraining::install(const std::vector<Program>& programs) {
  for (const Program& program : programs) sides_[program.device.value()]->install(program);
}

StepResult InProcessTraining::run(StepRequest request) {
  std::vector<StepReport> reports = run_on_devices(std::move(request));
  for (std::size_t i = 0; i < reports.size() && i < traces_.size(); ++i)
    std::move(reports[i].trace.begin(), reports[i].trace.end(),
              std::back_inserter(traces_[i].events));
  StepResult result = combine(reports);
  if (!auto_note_sent_ && plan_->layout.searches()) {
    auto_note_sent_ = true;
    result.note = fmt::format(
        "schedule auto: keeping {}: all devices run in one thread, so no schedule is faster",
        plan_->schedule.name);
  }
  return result;
}

/// One execution of a program on all devices that have it: advances their interpreters in turns.
class InProcessTraining::ProgramExecution {
 public:
  /// Throws Error(kNotFound) if no device has the program.
  ProgramExecution(const std::vector<std::unique_ptr<DeviceSide>>& sides,
                   const StepRequest& request, const std::shared_ptr<WakeFlag>& wake_flag)
      : sides_(sides), wake_flag_(wake_flag) {
    for (const auto& side : sides) {
      const auto program = side->programs.find(request.program);
      if (program == side->programs.end()) continue;
      programs_.push_back(program->second);
      interpreters_.push_back(std::make_unique<Interpreter>(
          *program->second, request, side->resources, [wake_flag] { wake_flag->set(); }));
    }
    if (interpreters_.empty())
      throw_error(ErrorCode::kNotFound, "there is no program '{}'", request.program);
    done_.resize(interpreters_.size(), false);
  }

  /// Returns when all devices have run their programs. Throws their first error, or
  /// Error(kInternal) if no device can progress.
  void run() {
    int idle_rounds = 0;
    while (std::ranges::find(done_, false) != done_.end()) {
      const bool moved = advance();
      const bool computing = std::ranges::any_of(
          interpreters_, [](const auto& interpreter) { return interpreter->device_busy(); });
      if (!moved && computing) wake_flag_->wait(kWirePollInterval);
      // A shuffled loopback may delay messages for some polls.
      idle_rounds = moved || computing ? 0 : idle_rounds + 1;
      if (idle_rounds > kMaxIdleRounds) throw_deadlock();
    }
  }
  void cancel() {
    const Error why(ErrorCode::kCancelled, "another device of this run failed");
    for (const auto& interpreter : interpreters_) interpreter->cancel(why);
  }
  /// Completes all transfers and device work in flight.
  void drain() {
    bool busy = true;
    while (busy) {
      busy = poll_engines();
      for (const auto& interpreter : interpreters_) busy = busy || !interpreter->quiescent();
    }
  }
  std::vector<StepReport> finish() {
    std::vector<StepReport> reports;
    for (const auto& interpreter : interpreters_) reports.push_back(interpreter->finish());
    return reports;
  }

 private:
  static constexpr int kMaxIdleRounds = 1000;

  bool poll_engines() {
    bool moved = false;
    for (const auto& side : sides_) moved = side->engine.poll() || moved;
    return moved;
  }
  /// Advances each device as far as it gets. Returns whether a device finished or bytes moved.
  bool advance() {
    bool moved = false;
    for (std::size_t i = 0; i < interpreters_.size(); ++i) {
      if (done_[i]) continue;
      done_[i] = interpreters_[i]->advance() == Interpreter::Progress::kDone;
      moved = moved || done_[i];
    }
    return poll_engines() || moved;
  }
  [[noreturn]] void throw_deadlock() const {
    std::vector<Program> programs;
    std::vector<std::optional<std::size_t>> next;
    for (std::size_t i = 0; i < interpreters_.size(); ++i) {
      programs.push_back(*programs_[i]);
      next.emplace_back(interpreters_[i]->instruction());
    }
    throw_error(ErrorCode::kInternal, "deadlock: every device waits:{}",
                explain_stall(programs, next));
  }

  const std::vector<std::unique_ptr<DeviceSide>>& sides_;
  const std::shared_ptr<WakeFlag>& wake_flag_;
  std::vector<const Program*> programs_;
  std::vector<std::unique_ptr<Interpreter>> interpreters_;
  std::vector<bool> done_;
};

std::vector<StepReport> InProcessTraining::run_on_devices(StepRequest request) {
  const std::lock_guard lock(mutex_);
  request.execution_number = ++runs_;
  ProgramExecution execution(sides_, request, wake_flag_);
  try {
    execution.run();
  } catch (...) {
    execution.cancel();
    ledger_.clear();
    execution.drain();
    throw;
  }
  execution.drain();
  return execution.finish();
}

void InProcessTraining::move(const Program& program) {
  StepRequest request;
  request.program = program.name;
  run_on_devices(std::move(request));
}

void InProcessTraining::copy_state() { move(plan_->checkpoint_copy.front()); }

void InProcessTraining::gather(const ReadStateSlice& take, const std::stop_token& /*stop*/) {
  for (const CheckpointBatch& batch : plan_->checkpoint) {
    move(batch.gather.front());
    read_batch(batch, checkpoint_buffer(), take);
  }
}

void InProcessTraining::restore(const WriteStateSlice& give, std::int64_t /*steps_done*/) {
  for (const CheckpointBatch& batch : plan_->checkpoint) {
    fill_batch(batch, checkpoint_buffer(), give);
    move(batch.scatter.front());
  }
}

std::vector<DeviceTrace> InProcessTraining::take_traces() {
  std::vector<DeviceTrace> taken = traces_;
  for (DeviceTrace& trace : traces_) trace.events.clear();
  return taken;
}

std::span<float> InProcessTraining::checkpoint_buffer() {
  const std::span<std::byte> bytes = sides_.back()->storage.block(kCheckpointBuffer);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace weft::mesh
