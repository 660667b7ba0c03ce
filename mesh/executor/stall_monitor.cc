#include "mesh/executor/stall_monitor.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/program/stall.h"

namespace weft::mesh {

StallMonitor::StallMonitor(const ProgressLimits& limits, std::uint64_t run, std::string what,
                           Devices devices, const Clock& clock)
    : run_(run),
      detector_(limits, run),
      what_(std::move(what)),
      devices_(std::move(devices)),
      clock_(clock),
      asked_(clock.now()) {}

void StallMonitor::poll_devices() {
  const TimePoint now = clock_.now();
  if (!answers_) {
    if (now - asked_ < detector_.interval()) return;
    answers_.emplace(devices_.ask());
    asked_ = now;
  }
  if (!answers_->ready()) return;
  reports_.clear();
  for (const auto& answer : answers_->get())
    reports_.push_back(answer.ok() ? std::optional(answer.value()) : std::nullopt);
  answers_.reset();
  if (devices_.driver) reports_.push_back(devices_.driver());
  const StallDetector::Verdict verdict = detector_.check(reports_, now);
  switch (verdict.kind) {
    case StallDetector::Kind::kProgressing: return;
    case StallDetector::Kind::kStalled:
      return devices_.on_stall(verdict.device.value_or(0), stalled_text(verdict));
    case StallDetector::Kind::kDeadlock:
      throw_error(ErrorCode::kDeadlineExceeded,
                  "{} is stuck: no device has made progress for {}, and none is running an op{}{}",
                  what_, format_seconds(in_seconds(verdict.stalled_for)), stuck_chunk(), stall());
    case StallDetector::Kind::kOpTooLong:
      throw_error(ErrorCode::kDeadlineExceeded,
                  "{} was stopped: {}, which is longer than cluster.longest_op", what_,
                  inside(*verdict.device));
  }
}

std::string StallMonitor::inside(std::size_t device) const {
  const DeviceProgress& at = *reports_[device];
  std::string op = at.handler;
  if (op.empty() && devices_.programs != nullptr)
    op = describe_instruction((*devices_.programs)[device], at.position.instruction);
  const std::string what =
      op.empty() ? fmt::format("an op of '{}'", at.position.program) : fmt::format("'{}'", op);
  return fmt::format("{} has been running {} for {}", devices_.names[device], what,
                     format_seconds(at.inside_seconds));
}

std::string StallMonitor::stalled_text(const StallDetector::Verdict& verdict) const {
  std::string text = fmt::format("{}: no progress for {}: ", what_,
                                 format_seconds(in_seconds(verdict.stalled_for)));
  if (verdict.device) {
    std::size_t others = 0;
    for (std::size_t i = 0; i < reports_.size(); ++i)
      others += reports_[i] && reports_[i]->inside && i != *verdict.device ? 1 : 0;
    return text + inside(*verdict.device) +
           (others == 0 ? "" : fmt::format(", and {} more devices are running ops", others));
  }
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    if (!reports_[i]) return text + devices_.names[i] + " does not respond";
  }
  return text;
}

std::string StallMonitor::stuck_chunk() const {
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    if (reports_[i] && reports_[i]->arriving > 0)
      return fmt::format(
          "; data for {} has stopped arriving: check the network to its host (firewall, link)",
          devices_.names[i]);
  }
  return "";
}

std::string StallMonitor::stall() const {
  if (devices_.programs == nullptr) return "";
  std::vector<std::optional<std::size_t>> next;
  std::vector<std::optional<transfer::OperationKey>> collectives;
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    const ProgramPosition& at = reports_[i]->position;
    const bool begun = at.program == (*devices_.programs)[i].name && at.execution_number == run_;
    next.push_back(begun ? static_cast<std::size_t>(at.instruction) : 0);
    collectives.push_back(begun ? at.collective : std::nullopt);
  }
  return "; its devices:" + explain_stall(*devices_.programs, next, collectives);
}

}  // namespace weft::mesh
