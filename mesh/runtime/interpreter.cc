#include "mesh/runtime/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/runtime/internal/collective_transfers.h"
#include "mesh/runtime/internal/device_queue.h"
#include "mesh/runtime/internal/engine_transfers.h"

namespace weft::mesh {
namespace {

/// Number of actions queued ahead of the device's current one. Enough that the device never waits
/// for the host; few enough that failures are seen soon and staging stays small.
constexpr std::size_t kActionsAhead = 2;

}  // namespace

Interpreter::Interpreter(const Program& program, StepRequest request, Resources& resources,
                         std::function<void()> wake)
    : program_(program),
      request_(std::move(request)),
      resources_(resources),
      tensors_(resources.storage.resolve(program)),
      start_of_handle_(program.num_handles, nullptr),
      begun_(resources.clock.now()),
      timeline_(request_),
      device_(std::make_unique<DeviceQueue>(resources.stream, resources.copies, resources.clock,
                                            resources.board, timeline_, std::move(wake))),
      graphs_(resources.storage.graphs().of(program)),
      executors_{std::make_unique<EngineTransfers>(
          resources.engine, program, *device_,
          EngineTransfers::TransferIdentity{resources.epoch, request_.execution_number,
                                            resources.low_priority})} {
  for (const Instruction& instruction : program_.instructions) {
    if (const auto* begin = std::get_if<BeginAction>(&instruction))
      microbatches_ = std::max(microbatches_, begin->microbatch + 1);
  }
  if (program.collective_order.empty()) return;
  if (resources.library == nullptr)
    throw_error(ErrorCode::kFailedPrecondition,
                "program '{}' needs device collectives, which {} does not have", program.name,
                program.device_name);
  executors_[1] =
      std::make_unique<CollectiveTransfers>(*resources.library, program, *device_, resources.epoch);
}

Interpreter::~Interpreter() {
  WEFT_CHECK(quiescent(), "an execution of '{}' ends while transfers use its memory",
             program_.name);
}

bool Interpreter::quiescent() const { return device_->callbacks()->quiescent(); }

bool Interpreter::wait_quiescent(Nanoseconds limit) const {
  return device_->callbacks()->wait_quiescent(limit);
}

bool Interpreter::wants_polling() const {
  return std::ranges::any_of(executors_, [](const auto& executor) {
    return executor != nullptr && executor->wants_polling();
  });
}

std::optional<transfer::OperationKey> Interpreter::current_transfer() const {
  for (const auto& executor : executors_) {
    const auto at = executor == nullptr ? std::nullopt : executor->position();
    if (at) return at;
  }
  return std::nullopt;
}

void Interpreter::cancel(const Error& why) {
  for (const auto& executor : executors_) {
    if (executor != nullptr) executor->cancel(why);
  }
}

bool Interpreter::device_busy() const { return device_->pending_events() > 0; }

Interpreter::Progress Interpreter::advance() {
  try {
    const Progress progress = run_until_blocked();
    publish_position();
    return progress;
  } catch (...) {
    device_->expect_queued_work();
    publish_position();
    throw;
  }
}

/// Publishes the position to the board. Pending device work counts as an op, unless it is a
/// transfer that waits for peers.
void Interpreter::publish_position() const {
  if (resources_.board == nullptr) return;
  const auto transfer = current_transfer();
  resources_.board->report_blocked(next_, transfer, device_busy() && !transfer,
                                   resources_.clock.now());
}

Interpreter::Progress Interpreter::run_until_blocked() {
  drain_events();
  for (const auto& executor : executors_) {
    if (executor != nullptr) executor->poll();
  }
  if (next_ == 0 && !waiting_since_) timeline_.compute(resources_.clock.now());
  while (next_ < program_.instructions.size()) {
    if (resources_.board != nullptr) resources_.board->enter(next_, resources_.clock.now());
    const Instruction& instruction = program_.instructions[next_];
    if (!queue_segment()) {
      if (!std::visit([&](const auto& each) { return execute(each); }, instruction))
        return Progress::kBlocked;
      ++next_;
    }
    worked_ = worked_ || !std::holds_alternative<Wait>(instruction);
    if (resources_.board != nullptr) resources_.board->report_finished();
  }
  return finish_device_work();
}

Interpreter::Progress Interpreter::finish_device_work() {
  if (!ended_) {
    if (program_.losses >= 0) device_->download_losses(bytes(tensors_[program_.losses]));
    device_->record_mark({.kind = Mark::Kind::kEnd, .idle = !worked_});
    ended_ = true;
  }
  const bool idle = quiescent();
  drain_events();
  // News may have arrived since the check; it calls `wake`.
  if (!idle || !quiescent()) return Progress::kBlocked;
  device_->synchronize();
  return Progress::kDone;
}

void Interpreter::drain_events() {
  device_->drain_events();
  const auto& failure = device_->failure();
  if (!failure) return;
  const auto& [error, where] = *failure;
  throw Error(error.code(), fmt::format("{} ({}{})", error.message(), where, position()))
      .at(error.where());
}

bool Interpreter::execute(const BeginAction& begin) {
  // Sends off data that has been copied to the host meanwhile.
  drain_events();
  if (device_->actions_ahead() >= kActionsAhead) return false;
  device_->record_mark({Mark::Kind::kBegin, begin});
  return true;
}

bool Interpreter::execute(const EndActions&) {
  device_->record_mark({Mark::Kind::kEndActions});
  return true;
}

bool Interpreter::execute(const Read& read) {
  const DataInput& input = program_.inputs[read.input];
  device_->fill(bytes(tensors_[read.buffer]), [&](std::span<std::byte> out) {
    try {
      resources_.batches.read(input.name, request_.split, request_.step, read.microbatch,
                              microbatches_, input.region, out);
    } catch (...) {
      // The app's error does not name the batch.
      const Error error = current_error();
      throw Error(error.code(),
                  fmt::format("reading the input '{}' of step {}, microbatch {}{}, on {}: {}",
                              input.name, request_.step, read.microbatch,
                              request_.split == Split::kValidation ? " (held out)" : "",
                              program_.device_name, error.message()));
    }
  });
  return true;
}

bool Interpreter::execute(const Start& start) {
  const Transfer& transfer = program_.transfers[start.transfer];
  // The whole buffer, or, for a signal, as many bytes as planned.
  const auto bytes_of = [&](std::int32_t buffer, std::size_t size) {
    if (buffer < 0) return std::span<std::byte>();
    const std::span<std::byte> all = bytes(tensors_[buffer]);
    return all.first(std::min(size, all.size()));
  };
  if (!executor_of(transfer).start(start, bytes_of(start.source, transfer.source_bytes()),
                                   bytes_of(start.destination, transfer.destination_bytes())))
    return false;
  start_of_handle_[start.handle] = &start;
  return true;
}

bool Interpreter::execute(const Wait& wait) {
  const Start& start = *start_of_handle_[wait.handle];
  const Transfer& transfer = program_.transfers[start.transfer];
  TransferExecutor& executor = executor_of(transfer);
  if (!waiting_since_) {
    if (!executor.done(wait.handle)) drain_events();
    if (executor.done(wait.handle)) return true;
    device_->record_mark({.kind = Mark::Kind::kWaitBegins, .idle = !worked_});
    waiting_since_ = resources_.clock.now();
  }
  if (!executor.wait(wait.handle)) return false;
  device_->record_mark({Mark::Kind::kWaitEnds, {}, &transfer, start.microbatch});
  waiting_since_.reset();
  worked_ = false;
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
  for (const auto& executor : executors_) {
    if (executor != nullptr) text += executor->describe_position();
  }
  return text + fmt::format("of '{}', run {}, {} (instruction {} of {})", program_.name,
                            request_.execution_number, program_.device_name, next_,
                            program_.instructions.size());
}

StepReport Interpreter::finish() {
  WEFT_CHECK(next_ == program_.instructions.size());
  resources_.stream.synchronize();
  device_->drain_events();
  StepReport report = timeline_.finish();
  report.step_seconds = in_seconds(resources_.clock.now() - begun_);
  report.grad_norm = grad_norm_;
  report.first_nonfinite_parameter = first_not_finite_;
  report.egress_rate = resources_.engine.counters().egress_rate;
  if (program_.losses >= 0) {
    const auto losses = device_->losses();
    report.losses.assign(losses.begin(), losses.end());
  }
  return report;
}

}  // namespace weft::mesh
