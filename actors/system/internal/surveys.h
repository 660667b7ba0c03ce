#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/system/internal/hosted_actors.h"
#include "actors/system/internal/outgoing_calls.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/survey.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Returns the error of a survey between programs of different builds. `process`: the one asked.
Error other_build(const std::string& process);
/// Returns the answer of a survey call. Throws its error, and other_build() if it has other fields.
std::vector<ProcessSurvey> surveys_of(const CallState& call);

/// Answers surveys of this process and of its peers. A peer gets its answer from the I/O thread,
/// whatever the actors do; a local caller gets it on its own thread. Any thread.
class Surveys final {
 public:
  Surveys(const ProcessIdentity& identity, const PeerLinks& links, const HostedActors& actors,
          OutgoingCalls& calls)
      : identity_(identity), links_(links), actors_(actors), calls_(calls) {}

  using Answer = std::function<void(Outcome<std::vector<std::byte>>)>;
  /// Surveys the targets of a request, and answers once all have answered or are late.
  void answer(const SurveyRequest& request, Answer answer);
  /// Surveys this process alone.
  ProcessSurvey survey_itself() const;
  /// See System::set_exit_reason().
  void set_exit_reason(const std::string& why);

 private:
  class Answers;
  /// Asks a peer, which asks `target.forward_to`.
  void forward(const SurveyTarget& target, Nanoseconds within,
               const std::shared_ptr<Answers>& answers);

  const ProcessIdentity& identity_;
  const PeerLinks& links_;
  const HostedActors& actors_;
  OutgoingCalls& calls_;
  mutable Mutex mutex_;                                      // guards ending_
  std::optional<std::pair<std::string, TimePoint>> ending_;  // reason and time of the process's end
};

}  // namespace weft::actors
