#include "mesh/runtime/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/runtime/internal/async_execution.h"
#include "mesh/runtime/internal/collective_step.h"
#include "mesh/runtime/internal/notice.h"

namespace weft::mesh {
namespace {

/// How many actions a device is given ahead of the one that it is at: enough that it never waits
/// for the host, few enough that a failure is seen soon and little host memory is in use.
constexpr std::size_t kActionsAhead = 2;

}  // namespace

Interpreter::Interpreter(const Program& program, StepRequest request, Resources& resources,
                         std::function<void()> wake)
    : program_(program),
      request_(std::move(request)),
      resources_(resources),
      wake_(std::move(wake)),
      inbox_(std::make_shared<Inbox>()),
      tensors_(resources.storage.resolve(program)),
      handles_(program.num_handles, Handle::kIdle),
      start_of_handle_(program.num_handles, nullptr),
      begun_(resources.clock.now()),
      timeline_(request_) {
  for (const Instruction& instruction : program_.instructions) {
    if (const auto* begin = std::get_if<Begin>(&instruction))
      microbatches_ = std::max(microbatches_, begin->microbatch + 1);
  }
  if (resources.copies == nullptr) {
    WEFT_CHECK(program.collective_order.empty(), "{} computes inside its calls",
               program.device_name);
    return;
  }
  device_ = std::make_unique<AsyncExecution>(*resources.copies, resources.stream,
                                             program.num_handles, inbox_, wake_);
  graphs_ = &resources.storage.graphs().of(program);
  timeline_.compute(begun_);
  if (program.collective_order.empty()) return;
  if (resources.collectives == nullptr)
    throw_error(ErrorCode::kFailedPrecondition, "'{}' needs device collectives, and {} has none",
                program.name, program.device_name);
  collectives_ = std::make_unique<CollectiveStep>(*resources.collectives, program, *device_);
}

Interpreter::~Interpreter() {
  WEFT_CHECK(quiescent(), "an execution of '{}' ends while transfers use its memory",
             program_.name);
}

bool Interpreter::quiescent() const {
  const std::lock_guard lock(inbox_->mutex);
  return inbox_->under_way == 0;
}

bool Interpreter::wait_quiescent(Nanoseconds limit) const {
  std::unique_lock lock(inbox_->mutex);
  return inbox_->idle.wait_for(lock, limit, [&] { return inbox_->under_way == 0; });
}

bool Interpreter::wants_polling() const { return collectives_ && collectives_->busy(); }

std::optional<transfer::OperationKey> Interpreter::current_collective() const {
  return collectives_ ? collectives_->current() : std::nullopt;
}

bool Interpreter::device_busy() const { return device_ && device_->under_way() > 0; }

Interpreter::Progress Interpreter::advance() {
  try {
    const Progress progress = go_on();
    leave_word();
    return progress;
  } catch (...) {
    if (device_) device_->seal();
    leave_word();
    throw;
  }
}

/// Work that is pending on the device counts as an op that takes its time, unless it is a
/// collective that waits for others.
void Interpreter::leave_word() const {
  if (resources_.board == nullptr) return;
  const auto collective = current_collective();
  resources_.board->leave(next_, collective, device_busy() && !collective);
}

Interpreter::Progress Interpreter::go_on() {
  take_messages();
  throw_failure();
  if (collectives_) collectives_->poll();
  while (next_ < program_.instructions.size()) {
    if (resources_.board != nullptr) resources_.board->enter(next_, resources_.clock.now());
    if (queue_segment()) {
      if (resources_.board != nullptr) resources_.board->finished();
      continue;
    }
    const bool executed = std::visit(
        [&](const auto& instruction) {
          const bool waits = std::is_same_v<std::decay_t<decltype(instruction)>, Wait>;
          if (!waits && !device_ && !timeline_.computing())
            timeline_.compute(resources_.clock.now());
          return execute(instruction);
        },
        program_.instructions[next_]);
    if (!executed) return Progress::kBlocked;
    ++next_;
    if (resources_.board != nullptr) resources_.board->finished();
  }
  if (device_) return settle();
  reach({Mark::Kind::kEnd});
  return Progress::kDone;
}

Interpreter::Progress Interpreter::settle() {
  if (!ended_) {
    if (program_.losses >= 0) device_->download_losses(bytes(tensors_[program_.losses]));
    reach({Mark::Kind::kEnd});
    ended_ = true;
  }
  const bool idle = quiescent();
  take_messages();
  throw_failure();
  // Messages of what became idle after the look are still to be taken; they wake us.
  if (!idle || !quiescent()) return Progress::kBlocked;
  device_->synchronize();
  return Progress::kDone;
}

void Interpreter::throw_failure() const {
  if (failure_) throw *failure_;
}

void Interpreter::take_messages() {
  std::vector<std::pair<std::uint32_t, transfer::TransferReport>> reports;
  std::vector<Notice> notices;
  {
    const std::lock_guard lock(inbox_->mutex);
    reports.swap(inbox_->reports);
    notices.swap(inbox_->notices);
  }
  for (auto& [handle, report] : reports) {
    handles_[handle] = Handle::kDone;
    const Start& start = *start_of_handle_[handle];
    const Transfer& transfer = program_.transfers[start.transfer];
    if (!report.outcome.ok()) {
      if (failure_) continue;
      const Error& error = report.outcome.error();
      failure_ = Error(error.code(), fmt::format("{} (in '{}' of {})", error.message(),
                                                 transfer.name, position()))
                     .at(error.where());
      continue;
    }
    if (device_ && device_->land(handle, report)) continue;  // It has arrived when it has landed.
    timeline_.transferred(transfer, start.microbatch, report);
  }
  for (const Notice& notice : notices) take_notice(notice);
}

void Interpreter::take_notice(const Notice& notice) {
  if (resources_.board != nullptr) resources_.board->device_came_further(resources_.clock.now());
  const auto landed = device_->take(notice, timeline_);
  if (!notice.at.ok()) {
    const Error& error = notice.at.error();
    if (!failure_)
      failure_ = Error(error.code(),
                       fmt::format("{} (on the device, at {})", error.message(), position()));
    return;
  }
  if (landed) {
    const Start& start = *start_of_handle_[notice.index];
    timeline_.transferred(program_.transfers[start.transfer], start.microbatch, *landed);
  }
  switch (notice.kind) {
    case Notice::Kind::kCopiedOut:
      if (!failure_) begin_transfer(notice.index, device_->host_buffers(notice.index));
      break;
    case Notice::Kind::kCollectiveBegun:
      collectives_->began(notice.index, notice.at.value());
      break;
    case Notice::Kind::kCollectiveDone: {
      const Start& start = *start_of_handle_[notice.index];
      handles_[notice.index] = Handle::kDone;
      timeline_.transferred(program_.transfers[start.transfer], start.microbatch,
                            collectives_->report(start, notice.at.value()));
      break;
    }
    default: break;
  }
}

/// Tells the timeline where the device is: at once, or when it has come there.
void Interpreter::reach(const Mark& mark) {
  if (device_) device_->mark(mark);
  else timeline_.reach(mark, resources_.clock.now());
}

bool Interpreter::execute(const Begin& begin) {
  if (device_) {
    // What was copied out meanwhile should leave.
    take_messages();
    throw_failure();
    if (device_->actions_ahead() >= kActionsAhead) return false;
  }
  reach({Mark::Kind::kBegin, begin});
  return true;
}

bool Interpreter::execute(const Read& read) {
  const DataInput& input = program_.inputs[read.input];
  const TensorRef& tensor = tensors_[read.buffer];
  const auto read_into = [&](std::span<std::byte> out) {
    resources_.batches.read(input.name, request_.split, request_.step, read.microbatch,
                            microbatches_, input.region, out);
  };
  if (!device_) {
    read_into(bytes(tensor));
    return true;
  }
  StagingPool::Block block = device_->batch_block(tensor.type.bytes());
  read_into(block.span());
  device_->upload(std::move(block), bytes(tensor));
  return true;
}

bool Interpreter::in_device_memory(std::int32_t buffer) const {
  if (!device_ || buffer < 0) return false;
  const std::int32_t persistent = program_.buffers[buffer].persistent;
  return persistent < 0 || program_.persistents[persistent].place == MemoryPlace::kDevice;
}

bool Interpreter::execute(const Start& start) {
  const Transfer& transfer = program_.transfers[start.transfer];
  if (device_ && transfer.kind == TransferKind::kCheckpoint && !device_->room_for_more())
    return false;
  if (start.microbatch < 0) reach({Mark::Kind::kLeaveActions});
  start_of_handle_[start.handle] = &start;
  handles_[start.handle] = Handle::kStarted;
  // All of its buffer, or, of a signal, as much as the plan says.
  const auto bytes_of = [&](std::int32_t buffer, std::size_t size) {
    if (buffer < 0) return std::span<std::byte>();
    const std::span<std::byte> all = bytes(tensors_[buffer]);
    return all.first(std::min(size, all.size()));
  };
  const HostBuffers buffers{bytes_of(start.source, transfer.source_bytes()),
                            bytes_of(start.destination, transfer.destination_bytes())};
  if (transfer.operations() != nullptr) {
    collectives_->start(start, buffers.source, buffers.destination, resources_.stream);
    return true;
  }
  if (in_device_memory(start.source) || in_device_memory(start.destination)) {
    device_->stage(start.handle, buffers.source, buffers.destination);
    // One with a source begins when that has come.
    if (buffers.source.empty()) begin_transfer(start.handle, device_->host_buffers(start.handle));
    return true;
  }
  // The device's queue must have produced the source before the wire reads it; what the host itself
  // made is there.
  if (!device_ && start.source >= 0) resources_.stream.synchronize();
  begin_transfer(start.handle, buffers);
  return true;
}

void Interpreter::begin_transfer(std::uint32_t handle, const HostBuffers& buffers) {
  const Start& start = *start_of_handle_[handle];
  const Transfer& transfer = program_.transfers[start.transfer];
  {
    const std::lock_guard lock(inbox_->mutex);
    ++inbox_->under_way;
  }
  const transfer::TransferId id{resources_.epoch, request_.run, transfer.op,
                                static_cast<std::uint32_t>(start.microbatch + 1)};
  try {
    const transfer::TransferLimits limits{.stands_back = resources_.stands_back};
    resources_.engine.start(
        *transfer.part(), id, {&buffers.source, 1}, {&buffers.destination, 1}, limits,
        [inbox = inbox_, handle, wake = wake_](const transfer::TransferReport& report) {
          {
            const std::lock_guard lock(inbox->mutex);
            inbox->reports.emplace_back(handle, report);
            if (--inbox->under_way == 0) inbox->idle.notify_all();
          }
          wake();
        });
  } catch (...) {
    const std::lock_guard lock(inbox_->mutex);
    --inbox_->under_way;
    throw;
  }
}

/// The host goes on; compute waits.
bool Interpreter::await_collective(const Wait& wait) {
  if (collectives_->done(wait.handle)) return true;
  const Start& start = *start_of_handle_[wait.handle];
  reach({Mark::Kind::kStandStill});
  collectives_->await(wait.handle, resources_.stream);
  reach({Mark::Kind::kGoOn, {}, &program_.transfers[start.transfer], start.microbatch});
  return true;
}

bool Interpreter::execute(const Wait& wait) {
  const Transfer& awaited = program_.transfers[start_of_handle_[wait.handle]->transfer];
  if (awaited.operations() != nullptr) return await_collective(wait);
  if (handles_[wait.handle] != Handle::kDone) {
    take_messages();
    throw_failure();
  }
  const bool done = handles_[wait.handle] == Handle::kDone;
  if (!waiting_since_) {
    if (done && (!device_ || device_->landed(wait.handle))) return true;
    reach({Mark::Kind::kStandStill});
    waiting_since_ = resources_.clock.now();
  }
  if (!done) return false;
  if (device_) device_->await_landing(wait.handle);
  const Start& start = *start_of_handle_[wait.handle];
  reach({Mark::Kind::kGoOn, {}, &program_.transfers[start.transfer], start.microbatch});
  waiting_since_.reset();
  return true;
}

std::string Interpreter::position() const {
  std::string text;
  if (waiting_since_) {
    const Start& start = *start_of_handle_[std::get<Wait>(program_.instructions[next_]).handle];
    text = fmt::format("wait for '{}'", program_.transfers[start.transfer].name);
    if (start.microbatch >= 0) text += fmt::format(" of microbatch {}", start.microbatch);
    text += fmt::format(", for {}, ",
                        format_seconds(in_seconds(resources_.clock.now() - *waiting_since_)));
  }
  if (const auto& action = timeline_.action()) {
    text +=
        fmt::format("in {} ", to_string(Action{action->stage, action->kind, action->microbatch}));
  }
  if (collectives_) {
    if (const std::string under_way = collectives_->under_way(); !under_way.empty())
      text += fmt::format("with device collectives at {}, ", under_way);
  }
  return text + fmt::format("of '{}', run {}, {} (instruction {} of {})", program_.name,
                            request_.run, program_.device_name, next_,
                            program_.instructions.size());
}

StepReport Interpreter::finish() {
  WEFT_CHECK(next_ == program_.instructions.size());
  resources_.stream.synchronize();
  take_messages();
  StepReport report = timeline_.finish();
  report.step_seconds = in_seconds(resources_.clock.now() - begun_);
  report.grad_norm = grad_norm_;
  report.first_not_finite = first_not_finite_;
  report.egress_rate = resources_.engine.counters().egress_rate;
  if (program_.losses >= 0) {
    const auto losses = device_ ? device_->losses() : tensors_[program_.losses].as<const float>();
    report.losses.assign(losses.begin(), losses.end());
  }
  return report;
}

}  // namespace weft::mesh
