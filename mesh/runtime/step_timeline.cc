#include "mesh/runtime/step_timeline.h"

#include <algorithm>
#include <string>

#include "core/base/check.h"

namespace weft::mesh {
namespace {

std::int64_t nanoseconds(TimePoint time) { return time.time_since_epoch().count(); }

TraceKind trace_kind(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return TraceKind::kForward;
    case ActionKind::kBackward: return TraceKind::kBackward;
    case ActionKind::kInputGrad: return TraceKind::kInputGrad;
    case ActionKind::kWeightGrad:
    case ActionKind::kVocabularyGrads:
    case ActionKind::kInputBackward: return TraceKind::kWeightGrad;
    case ActionKind::kReduceGrad: return TraceKind::kCollective;
    case ActionKind::kOptimizer: return TraceKind::kUpdate;
    default: return TraceKind::kForward;  // recomputation, S and IF
  }
}

TraceKind trace_kind(TransferPurpose kind) {
  return kind == TransferPurpose::kReshard ? TraceKind::kReshard : TraceKind::kCollective;
}

}  // namespace

void StepTimeline::reach(const Mark& mark, TimePoint now) {
  if (mark.idle) computing_since_.reset();
  switch (mark.kind) {
    case Mark::Kind::kBegin: return begin(mark.action, now);
    case Mark::Kind::kEndActions: return leave_actions(now);
    case Mark::Kind::kWaitBegins:
      close_compute_span(now);
      waiting_since_ = now;
      return;
    case Mark::Kind::kWaitEnds: return end_wait(mark, now);
    case Mark::Kind::kEnd: return close_compute_span(now);
  }
}

void StepTimeline::begin(const BeginAction& begin, TimePoint now) {
  close_compute_span(now);
  action_ = begin;
  computing_since_ = now;
  auto& times = report_.action_times;
  const auto same = [&](const ActionTime& time) {
    return time.stage == begin.stage && time.kind == begin.kind;
  };
  auto time = std::ranges::find_if(times, same);
  if (time == times.end())
    time = times.insert(times.end(), ActionTime{.stage = begin.stage, .kind = begin.kind});
  if (!begin.resumes_action) ++time->count;
  action_time_ = time - times.begin();
}

void StepTimeline::leave_actions(TimePoint now) {
  // A reduction or an update named by the schedule is an action of the whole step.
  if (!action_ || !has_microbatch(action_->kind)) return;
  close_compute_span(now);
  action_.reset();
  computing_since_ = now;
}

void StepTimeline::end_wait(const Mark& mark, TimePoint now) {
  WEFT_CHECK(waiting_since_.has_value());
  report_.wait_seconds += in_seconds(now - *waiting_since_);
  if (mark.transfer->kind == TransferPurpose::kReshard) {
    waits_.emplace_back(*waiting_since_, now);
  } else if (action_) {
    report_.action_times[action_time_].collective_seconds += in_seconds(now - *waiting_since_);
  }
  if (request_.trace) {
    report_.trace.push_back({TraceLane::kCompute, TraceKind::kWait, mark.transfer->name,
                             nanoseconds(*waiting_since_), nanoseconds(now), mark.microbatch,
                             static_cast<std::int64_t>(request_.step), 0});
  }
  waiting_since_.reset();
}

void StepTimeline::close_compute_span(TimePoint now) {
  if (!computing_since_) return;
  const double span = in_seconds(now - *computing_since_);
  report_.compute_seconds += span;
  if (action_) report_.action_times[action_time_].seconds += span;
  // Receives are posted before the first action. The optimizer step comes after the last one.
  const bool begun = !report_.action_times.empty();
  if (request_.trace && begun) {
    const bool update = !action_;
    report_.trace.push_back(
        {TraceLane::kCompute, update ? TraceKind::kUpdate : trace_kind(action_->kind),
         update ? "" : to_string(Action{action_->stage, action_->kind, action_->microbatch}),
         nanoseconds(*computing_since_), nanoseconds(now),
         update ? TraceEvent::kNoMicrobatch : action_->microbatch,
         static_cast<std::int64_t>(request_.step), 0});
  }
  computing_since_.reset();
}

void StepTimeline::transferred(const Transfer& transfer, std::int32_t microbatch,
                               const transfer::TransferReport& report) {
  if (transfer.kind == TransferPurpose::kReshard) {
    report_.reshard_bytes += report.bytes_sent;
    if (report.bytes_received > 0) {
      arrivals_.emplace_back(report.moving, report.finished);
      // Transfers once per step belong to no edge.
      if (microbatch >= 0) {
        auto& times = report_.edge_times;
        auto time = std::ranges::find(times, transfer.op, &EdgeTime::op);
        if (time == times.end()) time = times.insert(times.end(), EdgeTime{.op = transfer.op});
        ++time->count;
        time->seconds += in_seconds(report.finished - report.moving);
      }
    }
  } else {
    report_.collective_bytes += report.bytes_sent;
  }
  if (!request_.trace) return;
  for (const auto& [lane, bytes] : {std::pair(TraceLane::kSend, report.bytes_sent),
                                    std::pair(TraceLane::kReceive, report.bytes_received)}) {
    if (bytes == 0) continue;
    report_.trace.push_back({lane, trace_kind(transfer.kind), transfer.name,
                             nanoseconds(report.moving), nanoseconds(report.finished), microbatch,
                             static_cast<std::int64_t>(request_.step), bytes});
  }
}

StepReport StepTimeline::finish() {
  report_.transfer_seconds = in_seconds(covered_time(arrivals_));
  report_.exposed_transfer_seconds = in_seconds(common_time(arrivals_, waits_));
  for (ActionTime& time : report_.action_times) {
    time.seconds /= time.count;
    time.collective_seconds /= time.count;
  }
  for (EdgeTime& time : report_.edge_times) time.seconds /= time.count;
  return std::move(report_);
}

}  // namespace weft::mesh
