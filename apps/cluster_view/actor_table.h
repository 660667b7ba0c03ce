#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/head/actor_messages.h"
#include "apps/cluster_view/cluster_survey.h"

namespace weft::apps {

/// Calls of an actor.
struct ActorLoad {
  std::uint64_t calls = 0;  ///< Calls that run, or wait for something inside their handler.
  std::uint64_t queue = 0;  ///< Calls that wait in its mailbox.
  friend bool operator==(const ActorLoad&, const ActorLoad&) = default;
};

/// Named actor, as `weft actors` prints it.
struct ActorRow {
  actors::ActorStatus status;
  std::optional<ActorLoad> load;  ///< Null if its process has not answered.
  std::string note;               ///< Reason why it has not; empty for an actor that is dead.
};

/// Combines what the head knows with the answers of the actors' processes.
std::vector<ActorRow> actor_rows(const std::vector<actors::ActorStatus>& actors,
                                 const SurveyedProcesses& surveyed);

/// Lists the named actors of the cluster and surveys their processes. `within`: time that they have
/// to answer. Throws Error if the head does not answer.
std::vector<ActorRow> list_actors(HeadClient& observer, Nanoseconds within);

/// Returns a table with a line per actor, then the notes. `columns`: width to which hosts and
/// classes are shortened; names are not. 0: unlimited.
std::string actors_text(const std::vector<ActorRow>& rows, std::size_t columns);
/// Returns an array of objects. "calls" and "queue" are null if the process has not answered.
nlohmann::ordered_json actors_json(const std::vector<ActorRow>& rows);

}  // namespace weft::apps
