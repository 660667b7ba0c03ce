#include "mesh/runtime/in_process_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
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

/// Wake-up flag. Shared with callbacks, which may outlive a run.
struct InProcessTraining::WakeFlag {
  std::mutex mutex;
  std::condition_variable changed;
  bool rung = false;  // guarded by mutex

  void ring() {
    const std::lock_guard lock(mutex);
    rung = true;
    changed.notify_one();
  }
  /// Waits for ring(), at most 1 ms, as a wire may need polling.
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::milliseconds(1), [&] { return rung; });
    rung = false;
  }
};

InProcessTraining::InProcessTraining(const TrainingPlan& plan, BatchSource& batches,
                                     std::uint64_t seed, const transfer::LoopbackOptions& options,
                                     Device* device, const InProcessCollectives& collectives)
    : plan_(&plan), batches_(batches), hub_(options), bell_(std::make_shared<WakeFlag>()) {
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

std::vector<StepReport> InProcessTraining::run_on_devices(StepRequest request) {
  const std::lock_guard lock(mutex_);
  request.execution_number = ++runs_;
  std::vector<std::unique_ptr<Interpreter>> interpreters;
  std::vector<DeviceSide*> sides;
  for (const auto& side : sides_) {
    const auto program = side->programs.find(request.program);
    if (program == side->programs.end()) continue;
    interpreters.push_back(std::make_unique<Interpreter>(*program->second, request, side->resources,
                                                         [bell = bell_] { bell->ring(); }));
    sides.push_back(side.get());
  }
  if (interpreters.empty())
    throw_error(ErrorCode::kNotFound, "there is no program '{}'", request.program);
  std::vector<bool> done(interpreters.size(), false);
  std::size_t left = interpreters.size();
  int idle_rounds = 0;
  const auto drain = [&] {
    bool busy = true;
    while (busy) {
      busy = false;
      for (const auto& side : sides_) busy = side->engine.poll() || busy;
      for (const auto& interpreter : interpreters) busy = busy || !interpreter->quiescent();
    }
  };
  try {
    while (left > 0) {
      bool moved = false;
      for (std::size_t i = 0; i < interpreters.size(); ++i) {
        if (done[i]) continue;
        if (interpreters[i]->advance() == Interpreter::Progress::kDone) {
          done[i] = true;
          --left;
          moved = true;
        }
      }
      for (const auto& side : sides_) moved = side->engine.poll() || moved;
      const bool computing = std::ranges::any_of(
          interpreters, [](const auto& interpreter) { return interpreter->device_busy(); });
      if (!moved && computing) bell_->wait();
      // A shuffled loopback may delay messages for some polls.
      idle_rounds = moved || computing ? 0 : idle_rounds + 1;
      if (idle_rounds > 1000) {
        std::vector<Program> programs;
        std::vector<std::optional<std::size_t>> next;
        for (std::size_t i = 0; i < interpreters.size(); ++i) {
          programs.push_back(*sides[i]->programs.at(request.program));
          next.emplace_back(interpreters[i]->instruction());
        }
        throw_error(ErrorCode::kInternal, "deadlock: every device waits:{}",
                    explain_stall(programs, next));
      }
    }
  } catch (...) {
    const Error why(ErrorCode::kCancelled, "another device of this run failed");
    for (const auto& interpreter : interpreters) interpreter->cancel(why);
    ledger_.clear();
    drain();
    throw;
  }
  drain();
  std::vector<StepReport> reports;
  for (const auto& interpreter : interpreters) reports.push_back(interpreter->finish());
  return reports;
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
