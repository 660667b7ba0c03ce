#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/cluster_view/head_client.h"
#include "apps/cluster_view/wait_graph.h"

namespace weft::apps {

/// Answers of surveyed processes.
struct SurveyedProcesses {
  /// A process may have several, if it was asked in several ways.
  std::vector<actors::ProcessSurvey> answers;
  std::vector<ProcessLabel> names;  ///< With the diagnoses of processes that do not answer.

  /// Returns one answer per process: its own, or else the reason why there is none, with its
  /// diagnosis.
  std::map<actors::ProcessId, actors::ProcessSurvey> merged() const;
};

/// Survey of processes of a cluster. Their I/O threads answer, over the connections of the head,
/// the agents and the drivers. Add all members before the runs. One thread at a time.
class ClusterSurvey final {
 public:
  /// `within`: time limit of the whole survey.
  ClusterSurvey(HeadClient& observer, Nanoseconds within) : observer_(observer), within_(within) {}

  void add_head();
  /// Adds a host's agent.
  void add_member(const actors::Member& member);
  /// Adds a run's driver and the device processes of each mesh's newest epoch.
  void add_run(const actors::RunRecord& run);
  /// Adds the process of an actor that belongs to the cluster. Ignored unless its host was added.
  void add_actor(const actors::ActorStatus& actor);

  /// Blocks until all have answered, or are late. Throws Error if the head does not answer.
  SurveyedProcesses ask();

 private:
  std::vector<actors::ProcessSurvey> survey(const std::vector<actors::SurveyTarget>& targets);

  HeadClient& observer_;
  const Nanoseconds within_;
  std::vector<ProcessLabel> names_;
  std::vector<actors::SurveyTarget> targets_;
  std::map<std::string, std::size_t> agents_;         // host to index of its agent in targets_
  std::map<std::string, std::string> machines_;       // host to machine
  std::map<actors::ProcessId, std::size_t> drivers_;  // device process to index of its driver in
                                                      // targets_
  std::map<actors::ProcessId, std::pair<std::int64_t, std::string>> seen_;  // pid and machine
};

}  // namespace weft::apps
