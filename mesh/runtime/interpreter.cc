#include "mesh/runtime/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>

#include "core/base/check.h"
#include "core/base/units.h"
#include "mesh/runtime/intervals.h"

namespace weft::mesh {
namespace {

double seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

TraceKind trace_kind(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return TraceKind::kForward;
    case ActionKind::kBackward: return TraceKind::kBackward;
    case ActionKind::kInputGrad: return TraceKind::kInputGrad;
    case ActionKind::kWeightGrad: return TraceKind::kWeightGrad;
    case ActionKind::kReduceGrad: return TraceKind::kCollective;
    case ActionKind::kOptimizer: return TraceKind::kUpdate;
    default: return TraceKind::kForward;  // recomputation; programs have no other kinds
  }
}

TraceKind trace_kind(TransferKind kind) { return kind == TransferKind::kReshard ? TraceKind::kReshard : TraceKind::kCollective; }

}  // namespace

Interpreter::Interpreter(const Program& program, StepRequest request, Resources& resources, std::function<void()> wake)
    : program_(program),
      request_(std::move(request)),
      resources_(resources),
      wake_(std::move(wake)),
      tensors_(resources.storage.resolve(program)),
      handles_(program.num_handles, Handle::kIdle),
      transfer_of_handle_(program.num_handles, 0),
      microbatch_of_handle_(program.num_handles, -1),
      begun_(resources.clock.now()) {
  for (const Instruction& instruction : program_.instructions) {
    if (const auto* begin = std::get_if<Begin>(&instruction)) microbatches_ = std::max(microbatches_, begin->microbatch + 1);
  }
}

Interpreter::~Interpreter() {
  WEFT_CHECK(quiescent(), "an execution of '{}' ends while transfers use its memory", program_.name);
}

bool Interpreter::quiescent() const {
  const std::lock_guard lock(inbox_->mutex);
  return inbox_->under_way == 0;
}

bool Interpreter::wait_quiescent(Nanoseconds limit) const {
  std::unique_lock lock(inbox_->mutex);
  return inbox_->idle.wait_for(lock, limit, [&] { return inbox_->under_way == 0; });
}

Interpreter::Progress Interpreter::advance() {
  take_reports();
  if (failure_) throw *failure_;
  while (next_ < program_.instructions.size()) {
    const bool go_on = std::visit(
        [&](const auto& instruction) {
          if constexpr (std::is_same_v<std::decay_t<decltype(instruction)>, Wait>) {
            return execute(instruction);
          } else {
            if (!computing_since_) computing_since_ = resources_.clock.now();
            execute(instruction);
            return true;
          }
        },
        program_.instructions[next_]);
    if (!go_on) return Progress::kBlocked;
    ++next_;
  }
  close_compute_span(resources_.clock.now());
  return Progress::kDone;
}

void Interpreter::take_reports() {
  std::vector<std::pair<std::uint32_t, transfer::TransferReport>> reports;
  {
    const std::lock_guard lock(inbox_->mutex);
    reports.swap(inbox_->reports);
  }
  for (auto& [handle, report] : reports) {
    handles_[handle] = Handle::kDone;
    const Transfer& transfer = program_.transfers[transfer_of_handle_[handle]];
    if (!report.outcome.ok()) {
      if (failure_) continue;
      const Error& error = report.outcome.error();
      failure_ =
          Error(error.code(), fmt::format("{} (in '{}' of {})", error.message(), transfer.name, position())).at(error.where());
      continue;
    }
    if (transfer.kind == TransferKind::kReshard) {
      report_.reshard_bytes += report.bytes_sent;
      if (report.bytes_received > 0) {
        arrivals_.emplace_back(report.moving, report.finished);
        // What comes once per step belongs to no edge.
        if (microbatch_of_handle_[handle] >= 0) count_arrival(transfer, report);
      }
    } else {
      report_.collective_bytes += report.bytes_sent;
    }
    if (!request_.trace) continue;
    const int microbatch = microbatch_of_handle_[handle];
    for (const auto& [lane, bytes] :
         {std::pair(TraceLane::kSend, report.bytes_sent), std::pair(TraceLane::kReceive, report.bytes_received)}) {
      if (bytes == 0) continue;
      report_.trace.push_back({lane, trace_kind(transfer.kind), transfer.name, report.moving.time_since_epoch().count(),
                               report.finished.time_since_epoch().count(), microbatch, static_cast<std::int64_t>(request_.step),
                               bytes});
    }
  }
}

void Interpreter::count_arrival(const Transfer& transfer, const transfer::TransferReport& report) {
  auto& times = report_.edge_times;
  auto time = std::ranges::find(times, transfer.op, &EdgeTime::op);
  if (time == times.end()) time = times.insert(times.end(), EdgeTime{.op = transfer.op});
  ++time->count;
  time->seconds += seconds(report.finished - report.moving);
}

void Interpreter::close_compute_span(TimePoint now) {
  if (!computing_since_) return;
  const double span = seconds(now - *computing_since_);
  report_.compute_seconds += span;
  if (action_) report_.action_times[action_time_].seconds += span;
  // Before the first action receives are posted; behind the last one the step is taken.
  const bool begun = !report_.action_times.empty();
  if (request_.trace && begun) {
    const bool update = !action_;
    report_.trace.push_back({TraceLane::kCompute, update ? TraceKind::kUpdate : trace_kind(action_->kind),
                             update ? "" : to_string(Action{action_->stage, action_->kind, action_->microbatch}),
                             computing_since_->time_since_epoch().count(), now.time_since_epoch().count(),
                             update ? TraceEvent::kNoMicrobatch : action_->microbatch, static_cast<std::int64_t>(request_.step),
                             0});
  }
  computing_since_.reset();
}

void Interpreter::execute(const Begin& begin) {
  const TimePoint now = resources_.clock.now();
  close_compute_span(now);
  action_ = begin;
  computing_since_ = now;
  auto& times = report_.action_times;
  const auto same = [&](const ActionTime& time) { return time.stage == begin.stage && time.kind == begin.kind; };
  auto time = std::ranges::find_if(times, same);
  if (time == times.end()) time = times.insert(times.end(), ActionTime{.stage = begin.stage, .kind = begin.kind});
  ++time->count;
  action_time_ = static_cast<std::size_t>(time - times.begin());
}

void Interpreter::leave_actions(TimePoint now) {
  // A reduction and an update that the schedule names are actions of the whole step.
  if (!action_ || !has_microbatch(action_->kind)) return;
  close_compute_span(now);
  action_.reset();
  computing_since_ = now;
}

void Interpreter::execute(const Run& run) {
  // An op has few operands; these keep their memory from one call to the next.
  thread_local std::vector<ConstTensorRef> inputs;
  thread_local std::vector<TensorRef> outputs;
  thread_local std::vector<OutputMode> modes;
  inputs.clear();
  outputs.clear();
  for (const std::uint32_t buffer : run.inputs) inputs.push_back(tensors_[buffer]);
  for (const std::uint32_t buffer : run.outputs) outputs.push_back(tensors_[buffer]);
  modes.assign(outputs.size(), run.accumulate ? OutputMode::kAccumulate : OutputMode::kWrite);
  resources_.stream.run(program_.ops[run.op], inputs, outputs, modes);
}

void Interpreter::execute(const Read& read) {
  const DataInput& input = program_.inputs[read.input];
  const TensorRef& tensor = tensors_[read.buffer];
  resources_.batches.read(input.name, request_.split, request_.step, read.microbatch, microbatches_, input.region,
                          {tensor.data, tensor.type.bytes()});
}

void Interpreter::execute(const Start& start) {
  if (start.microbatch < 0) leave_actions(resources_.clock.now());
  // The device's queue must have produced the source before the wire reads it.
  if (start.source >= 0) resources_.stream.synchronize();
  const Transfer& transfer = program_.transfers[start.transfer];
  // Each transfer of a program moves one tensor: all of its buffer, or, of a signal, as much as the plan says.
  const transfer::TensorPart& part = transfer.part.tensors.front();
  const auto bytes_of = [&](std::int32_t buffer, std::size_t bytes) {
    if (buffer < 0) return std::span<std::byte>();
    const TensorRef& tensor = tensors_[static_cast<std::size_t>(buffer)];
    return std::span(tensor.data, std::min(bytes, tensor.type.bytes()));
  };
  transfer_of_handle_[start.handle] = start.transfer;
  microbatch_of_handle_[start.handle] = start.microbatch;
  handles_[start.handle] = Handle::kStarted;
  {
    const std::lock_guard lock(inbox_->mutex);
    ++inbox_->under_way;
  }
  const transfer::TransferId id{resources_.epoch, request_.run, transfer.op, static_cast<std::uint32_t>(start.microbatch + 1)};
  try {
    const std::span<const std::byte> source = bytes_of(start.source, part.source_bytes());
    const std::span<std::byte> destination = bytes_of(start.destination, part.destination_bytes());
    resources_.engine.start(transfer.part, id, {&source, 1}, {&destination, 1}, {resources_.transfer_timeout},
                            [inbox = inbox_, handle = start.handle, wake = wake_](const transfer::TransferReport& report) {
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

bool Interpreter::execute(const Wait& wait) {
  if (handles_[wait.handle] != Handle::kDone) {
    take_reports();
    if (failure_) throw *failure_;
  }
  const TimePoint now = resources_.clock.now();
  if (handles_[wait.handle] != Handle::kDone) {
    if (!waiting_since_) {
      close_compute_span(now);
      waiting_since_ = now;
    }
    return false;
  }
  if (waiting_since_) {
    report_.wait_seconds += seconds(now - *waiting_since_);
    const Transfer& transfer = program_.transfers[transfer_of_handle_[wait.handle]];
    if (transfer.kind == TransferKind::kReshard) {
      waits_.emplace_back(*waiting_since_, now);
    } else if (action_) {
      report_.action_times[action_time_].collective_seconds += seconds(now - *waiting_since_);
    }
    if (request_.trace) {
      report_.trace.push_back({TraceLane::kCompute, TraceKind::kWait, transfer.name, waiting_since_->time_since_epoch().count(),
                               now.time_since_epoch().count(), microbatch_of_handle_[wait.handle],
                               static_cast<std::int64_t>(request_.step), 0});
    }
    waiting_since_.reset();
  }
  return true;
}

void Interpreter::execute(const Accumulate& accumulate) {
  const TensorRef& from = tensors_[accumulate.source];
  const TensorRef& to = tensors_[accumulate.destination];
  if (accumulate.first) {
    resources_.stream.copy({from.data, from.type.bytes()}, {to.data, to.type.bytes()});
  } else {
    resources_.stream.add(from.as<float>(), to.as<float>());
  }
}

void Interpreter::execute(const Norm& norm) {
  leave_actions(resources_.clock.now());
  const auto row = tensors_[norm.destination].as<double>();
  std::fill(row.begin(), row.end(), 0.0);
  std::vector<std::span<const float>> gradients;
  std::vector<std::uint32_t> parameters;
  for (const ProgramParameter& parameter : program_.parameters) {
    if (!parameter.counts_in_norm) continue;
    gradients.emplace_back(tensors_[parameter.gradient].as<float>());
    parameters.push_back(parameter.index);
  }
  std::vector<double> squares(gradients.size());
  resources_.stream.sums_of_squares(gradients, squares);
  resources_.stream.synchronize();
  for (std::size_t i = 0; i < squares.size(); ++i) row[parameters[i]] = squares[i];
}

void Interpreter::execute(const Update& update) {
  // Added by parameter, then by device: an order that does not depend on how the model is cut into stages.
  const TensorRef& norms = tensors_[update.norms];
  const auto devices = static_cast<std::size_t>(norms.type.shape[0]), parameters = static_cast<std::size_t>(norms.type.shape[1]);
  const auto squares = norms.as<double>();
  double sum = 0;
  for (std::size_t p = 0; p < parameters; ++p) {
    double of_parameter = 0;
    for (std::size_t d = 0; d < devices; ++d) of_parameter += squares[d * parameters + p];
    sum += of_parameter;
  }
  report_.grad_norm = std::sqrt(sum);
  const OptimizerStep& optimizer = request_.optimizer;
  AdamW step;
  step.learning_rate = optimizer.learning_rate;
  step.beta1 = optimizer.beta1;
  step.beta2 = optimizer.beta2;
  step.epsilon = optimizer.epsilon;
  step.step = optimizer.number;
  step.weight_decay = optimizer.weight_decay;
  step.gradient_scale = clip_factor(report_.grad_norm, optimizer.clip_norm);
  std::vector<OptimizedParameter> parameters_to_update;
  for (const ProgramParameter& parameter : program_.parameters) {
    parameters_to_update.push_back(
        {.gradient = tensors_[parameter.gradient].as<float>(),
         .value = tensors_[parameter.value].as<float>(),
         .first_moment = tensors_[parameter.first_moment].as<float>(),
         .second_moment = tensors_[parameter.second_moment].as<float>(),
         .decay = parameter.decay,
         .working = parameter.working < 0 ? TensorRef{} : tensors_[static_cast<std::size_t>(parameter.working)]});
  }
  resources_.stream.adamw(step, parameters_to_update);
}

std::string Interpreter::position() const {
  std::string text;
  if (waiting_since_) {
    const auto& wait = std::get<Wait>(program_.instructions[next_]);
    text = fmt::format("wait for '{}'", program_.transfers[transfer_of_handle_[wait.handle]].name);
    if (microbatch_of_handle_[wait.handle] >= 0) text += fmt::format(" of microbatch {}", microbatch_of_handle_[wait.handle]);
    text += fmt::format(", for {}, ", format_seconds(seconds(resources_.clock.now() - *waiting_since_)));
  }
  if (action_) text += fmt::format("in {} ", to_string(Action{action_->stage, action_->kind, action_->microbatch}));
  return text + fmt::format("of '{}', run {}, {} (instruction {} of {})", program_.name, request_.run, program_.device_name,
                            next_, program_.instructions.size());
}

StepReport Interpreter::finish() {
  WEFT_CHECK(next_ == program_.instructions.size());
  resources_.stream.synchronize();
  take_reports();
  report_.step_seconds = seconds(resources_.clock.now() - begun_);
  report_.transfer_seconds = seconds(covered_time(arrivals_));
  report_.exposed_transfer_seconds = seconds(common_time(arrivals_, waits_));
  report_.egress_rate = resources_.engine.counters().egress_rate;
  for (ActionTime& time : report_.action_times) {
    time.seconds /= time.count;
    time.collective_seconds /= time.count;
  }
  for (EdgeTime& time : report_.edge_times) time.seconds /= time.count;
  if (program_.losses >= 0) {
    const auto losses = tensors_[static_cast<std::size_t>(program_.losses)].as<float>();
    report_.losses.assign(losses.begin(), losses.end());
  }
  return std::move(report_);
}

}  // namespace weft::mesh
