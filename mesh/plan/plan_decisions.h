#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::mesh {

/// Question that a run file may leave to the planner.
enum class PlanQuestion : std::uint8_t {
  kGather,            ///< How often a mesh gathers sharded parameters.
  kSchedule,          ///< Schedule of a run with `schedule: auto`.
  kDuplex,            ///< Actions that run interleaved, with `duplex: auto`.
  kCheckpointCopies,  ///< Whether checkpoints are gathered from copies, beside steps.
  kSnapshots,         ///< Whether hosts keep copies of the state for recovery.
  kNetwork,           ///< Link rates that transfers are planned for.
};
/// Returns text such as "copies for checkpoints".
std::string to_string(PlanQuestion question);

/// Answer to a question that the run file leaves open.
struct PlanDecision {
  PlanQuestion question = {};
  std::string choice;
  std::string reason;
  bool declined = false;  ///< True if the run asked for something that the plan leaves out.
};

/// All automatic decisions of a plan, with reasons. A value.
class PlanDecisions final {
 public:
  /// Records a decision. Replaces an earlier one on the same question.
  void record(PlanDecision decision);
  /// Copies the decisions on questions that this plan did not have to answer, because it repeats
  /// those of `before`.
  void inherit(const PlanDecisions& before);
  /// Returns the reason for leaving out what the run asked for, or "" if it is not left out.
  std::string reason_declined(PlanQuestion question) const;
  /// Returns the decisions in the order of PlanQuestion.
  const std::vector<PlanDecision>& all() const { return decisions_; }

 private:
  const PlanDecision* find(PlanQuestion question) const;

  std::vector<PlanDecision> decisions_;
};

/// Returns the section "decisions" of `weft plan`, or "" if the run file leaves nothing open.
std::string describe(const PlanDecisions& decisions);

}  // namespace weft::mesh
