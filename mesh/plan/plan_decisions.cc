#include "mesh/plan/plan_decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::mesh {

std::string to_string(PlanQuestion question) {
  switch (question) {
    case PlanQuestion::kGather: return "gather";
    case PlanQuestion::kSchedule: return "schedule";
    case PlanQuestion::kDuplex: return "duplex";
    case PlanQuestion::kCheckpointCopies: return "copies for checkpoints";
    case PlanQuestion::kSnapshots: return "copies for recovery";
    case PlanQuestion::kNetwork: return "network";
  }
  return "unknown question";
}

void PlanDecisions::record(PlanDecision decision) {
  std::erase_if(decisions_,
                [&](const PlanDecision& earlier) { return earlier.question == decision.question; });
  const auto later =
      std::ranges::upper_bound(decisions_, decision.question, {}, &PlanDecision::question);
  decisions_.insert(later, std::move(decision));
}

void PlanDecisions::inherit(const PlanDecisions& before) {
  for (const PlanDecision& decision : before.decisions_)
    if (find(decision.question) == nullptr) record(decision);
}

std::string PlanDecisions::reason_declined(PlanQuestion question) const {
  const PlanDecision* decision = find(question);
  return decision != nullptr && decision->declined ? decision->reason : "";
}

const PlanDecision* PlanDecisions::find(PlanQuestion question) const {
  const auto found = std::ranges::find(decisions_, question, &PlanDecision::question);
  return found == decisions_.end() ? nullptr : &*found;
}

std::string describe(const PlanDecisions& decisions) {
  if (decisions.all().empty()) return "";
  std::string text = "\ndecisions that the run file leaves to Weft\n";
  for (const PlanDecision& decision : decisions.all())
    text += fmt::format("  {}: {}: {}\n", to_string(decision.question), decision.choice,
                        decision.reason);
  return text;
}

}  // namespace weft::mesh
