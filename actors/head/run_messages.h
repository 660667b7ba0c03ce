#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "actors/agent/log_messages.h"
#include "actors/agent/run_result.h"
#include "actors/head/cluster_messages.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Description of a run by the program that owns its meshes, for `weft runs`.
struct RunDescription {
  std::string machine;  ///< Result of gethostname() there.
  std::string out;      ///< Absolute path of its results; may be empty.
  /// Host whose agent has started it, and number of that launch. Empty: not detached.
  std::string agent = {};
  std::uint64_t launch = 0;
  std::uint64_t restart_count = 0;  ///< Number of restarts of its driver.
  bool restartable = false;         ///< True if its `weft run` starts it again after a crash.
  std::string previous_run_path =
      {};  ///< New path of the earlier run that lay at `out`; may be empty.
  /// Returns a text that identifies the run; empty if it has no results.
  std::string id() const { return out.empty() ? "" : machine + ":" + out; }
  /// Returns a number made from id(), for SystemOptions::run; 0 if the run has no results.
  std::uint64_t number() const { return out.empty() ? 0 : fingerprint_of(id()); }
  static constexpr auto fields =
      weft::fields(&RunDescription::machine, &RunDescription::out, &RunDescription::agent,
                   &RunDescription::launch, &RunDescription::restart_count,
                   &RunDescription::restartable, &RunDescription::previous_run_path);
};

/// Device process that a run has or had.
struct RunDevice {
  std::string label;  ///< "front[data=0,tensor=1]"
  MeshKey mesh;
  std::uint32_t rank = 0;
  HostDevice place;
  ProcessRef process;
  std::int64_t pid = 0;
  std::string log_file;  ///< Path on its host.
  static constexpr auto fields =
      weft::fields(&RunDevice::label, &RunDevice::mesh, &RunDevice::rank, &RunDevice::place,
                   &RunDevice::process, &RunDevice::pid, &RunDevice::log_file);
};

/// Record of a run, also after its end.
struct RunRecord {
  std::uint64_t number = 0;  ///< 1, 2, ... in this cluster
  std::string name;          ///< "quickstart"; a second one at a time: "quickstart#2".
  ProcessRef process;        ///< Process of its driver.
  std::int64_t pid = 0;
  RunDescription description;
  RunState state = RunState::kRunning;
  std::int64_t began_unix_ms = 0;
  std::int64_t ended_unix_ms = 0;  ///< 0: it has not ended.
  std::optional<RunProgress> progress = {};
  double progress_age_seconds = 0;  ///< Time since its last progress report, while it runs.
  std::string reason;               ///< Reason of its end.
  std::vector<RunDevice> devices;

  bool ended() const { return state > RunState::kUnreachable; }
  bool detached() const { return !description.agent.empty(); }
  static constexpr auto fields =
      weft::fields(&RunRecord::number, &RunRecord::name, &RunRecord::process, &RunRecord::pid,
                   &RunRecord::description, &RunRecord::state, &RunRecord::began_unix_ms,
                   &RunRecord::ended_unix_ms, &RunRecord::progress,
                   &RunRecord::progress_age_seconds, &RunRecord::reason, &RunRecord::devices);
};

/// Request for the last `limit` events, or for the first `limit` events after event number `after`.
struct EventsRequest {
  std::optional<std::uint64_t> after = {};
  std::uint32_t limit = 0;
  static constexpr auto fields = weft::fields(&EventsRequest::after, &EventsRequest::limit);
};
struct ClusterEvents {
  std::vector<ClusterEvent> events;  ///< Events, oldest first.
  std::uint64_t last = 0;  ///< Number of the last of them; if none, of the event before them.
  static constexpr auto fields = weft::fields(&ClusterEvents::events, &ClusterEvents::last);
};

/// Host of the cluster, for programs that contact its processes.
struct Member {
  std::string name;
  ProcessRef agent;
  std::int64_t pid = 0;
  std::string machine;
  std::string unreachable_note;  ///< "does not answer the head since 12 s"; empty: it answers.
  static constexpr auto fields = weft::fields(&Member::name, &Member::agent, &Member::pid,
                                              &Member::machine, &Member::unreachable_note);
};

/// Request for a part of the log of a process on a host.
struct LogRequest {
  std::string host;
  LogPosition position;
  static constexpr auto fields = weft::fields(&LogRequest::host, &LogRequest::position);
};

}  // namespace weft::actors
