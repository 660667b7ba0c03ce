#include "apps/bench/pipeline/arm.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::apps {
namespace {

using mesh::Lowering;
using mesh::Payload;
using transfer::ReshardAlgorithm;

void append_once(std::vector<Arm>& arms, const Arm& arm) {
  if (std::find(arms.begin(), arms.end(), arm) == arms.end()) arms.push_back(arm);
}

void append_signals(std::vector<Arm>& arms, const std::vector<std::string>& schedules) {
  for (const std::string& schedule : schedules)
    append_once(arms, {schedule, ReshardAlgorithm::kWeft, Lowering::kLanes, Payload::kSignals});
}

}  // namespace

std::string transfers_of(const Arm& arm) {
  if (arm.is_signal()) return "signals only";
  return arm.lowering == Lowering::kSafe ? "blocking" : "overlapped";
}

std::string schedule_of(const Arm& arm) {
  if (arm.redistributed) return arm.schedule + ", redistributed";
  if (arm.vocabulary != mesh::VocabularyMode::kLast)
    return fmt::format("{}, {}", arm.schedule, to_string(arm.vocabulary));
  return arm.memory_limit_of.empty()
             ? arm.schedule
             : fmt::format("{} in {}'s memory", arm.schedule, arm.memory_limit_of);
}

std::string to_string(const Arm& arm) {
  const std::string late = arm.reductions == Reductions::kAtTheEnd ? ", late reductions" : "";
  return arm.is_signal() ? fmt::format("signals only, {}{}", schedule_of(arm), late)
                         : fmt::format("{}, {}, {}{}", transfer::to_string(arm.strategy),
                                       transfers_of(arm), schedule_of(arm), late);
}

std::string paper_name(const Arm& arm) {
  if (arm.is_signal()) return arm.schedule == "eager-1f1b" ? "Signal" : "";
  if (arm.lowering == Lowering::kSafe && arm.schedule == "1f1b") {
    if (arm.strategy == ReshardAlgorithm::kSendRecv) return "Send/Recv";
    if (arm.strategy == ReshardAlgorithm::kLocalAllgather) return "Alpa";
    if (arm.strategy == ReshardAlgorithm::kBroadcast) return "Broadcast";
  }
  if (arm.lowering == Lowering::kLanes && arm.strategy == ReshardAlgorithm::kBroadcast) {
    if (arm.schedule == "1f1b") return "Overlap";
    if (arm.schedule == "eager-1f1b") return "AlpaComm";
  }
  return "";
}

Arm baseline_arm() { return {"1f1b", ReshardAlgorithm::kSendRecv, Lowering::kSafe}; }

std::vector<Arm> paper_arms(const std::vector<std::string>& schedules) {
  std::vector<Arm> arms = {baseline_arm(),
                           {"1f1b", ReshardAlgorithm::kLocalAllgather, Lowering::kSafe},
                           {"1f1b", ReshardAlgorithm::kBroadcast, Lowering::kSafe},
                           {"1f1b", ReshardAlgorithm::kBroadcast, Lowering::kLanes},
                           {"eager-1f1b", ReshardAlgorithm::kBroadcast, Lowering::kLanes}};
  for (const std::string& schedule : schedules)
    append_once(arms, {schedule, ReshardAlgorithm::kWeft, Lowering::kLanes});
  append_signals(arms, schedules);
  return arms;
}

std::vector<Arm> all_arms(const std::vector<std::string>& schedules) {
  std::vector<Arm> arms;
  for (const ReshardAlgorithm strategy :
       {ReshardAlgorithm::kSendRecv, ReshardAlgorithm::kLocalAllgather,
        ReshardAlgorithm::kBroadcast, ReshardAlgorithm::kWeft}) {
    for (const Lowering lowering : {Lowering::kSafe, Lowering::kLanes}) {
      for (const std::string& schedule : schedules)
        append_once(arms, {schedule, strategy, lowering});
    }
  }
  append_signals(arms, schedules);
  return arms;
}

std::vector<Arm> vocabulary_arms(Payload payload) {
  std::vector<Arm> arms;
  const auto add = [&](const std::string& schedule, mesh::VocabularyMode mode,
                       bool redistributed = false) {
    Arm arm{schedule, ReshardAlgorithm::kWeft, Lowering::kLanes, payload};
    arm.vocabulary = mode;
    arm.redistributed = redistributed;
    arms.push_back(arm);
  };
  add("1f1b", mesh::VocabularyMode::kLast);
  add("1f1b", mesh::VocabularyMode::kLast, true);
  add("1f1b", mesh::VocabularyMode::kInterlaced);
  add("1f1b", mesh::VocabularyMode::kVocab1);
  add("1f1b", mesh::VocabularyMode::kVocab2);
  add("v-half", mesh::VocabularyMode::kVocab2);
  return arms;
}

std::vector<Arm> schedule_arms(const std::vector<std::string>& schedules) {
  std::vector<Arm> arms = {baseline_arm()};
  for (const std::string& schedule : schedules)
    append_once(arms, {schedule, ReshardAlgorithm::kWeft, Lowering::kLanes});
  append_signals(arms, schedules);
  return arms;
}

}  // namespace weft::apps
