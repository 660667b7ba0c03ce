#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "actors/agent/log_messages.h"
#include "actors/agent/run_end.h"
#include "actors/head/cluster_messages.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// What a program that owns meshes says of itself, for `weft runs`.
struct RunDescription {
  std::string machine;  ///< what gethostname() says there
  std::string out;      ///< where its results go, absolute; may be empty
  /// Of a detached run: the host whose agent has started it, and which one of its runs it is.
  std::string agent = {};
  std::uint64_t launch = 0;
  std::uint64_t restart = 0;  ///< how often its driver has been started again
  bool restarts = false;      ///< its `weft run` starts it again where it dies
  std::string moved = {};     ///< Where the earlier run that lay at `out` lies now. May be empty.
  /// What tells it from others; empty where it has no results.
  std::string id() const { return out.empty() ? "" : machine + ":" + out; }
  static constexpr auto fields =
      weft::fields(&RunDescription::machine, &RunDescription::out, &RunDescription::agent,
                   &RunDescription::launch, &RunDescription::restart, &RunDescription::restarts,
                   &RunDescription::moved);
};

/// A device process that a run has had.
struct RunDevice {
  std::string label;  ///< "front[data=0,tensor=1]"
  MeshKey mesh;
  std::uint32_t rank = 0;
  HostDevice place;
  ProcessRef process;
  std::int64_t pid = 0;
  std::string log_file;  ///< on its host
  static constexpr auto fields =
      weft::fields(&RunDevice::label, &RunDevice::mesh, &RunDevice::rank, &RunDevice::place,
                   &RunDevice::process, &RunDevice::pid, &RunDevice::log_file);
};

/// What the head knows of a run, now or after its end.
struct RunRecord {
  std::uint64_t number = 0;  ///< 1, 2, ... in this cluster
  std::string name;          ///< "quickstart"; the second of that name at a time "quickstart#2"
  ProcessRef process;        ///< of its driver
  std::int64_t pid = 0;
  RunDescription description;
  RunState state = RunState::kRunning;
  std::int64_t began_unix_ms = 0;
  std::int64_t ended_unix_ms = 0;  ///< 0: it has not
  std::optional<RunProgress> progress = {};
  double told_seconds = 0;  ///< how long ago it told its progress, while it runs
  std::string why;          ///< of its end
  std::vector<RunDevice> devices;

  bool ended() const { return state > RunState::kAway; }
  bool detached() const { return !description.agent.empty(); }
  static constexpr auto fields =
      weft::fields(&RunRecord::number, &RunRecord::name, &RunRecord::process, &RunRecord::pid,
                   &RunRecord::description, &RunRecord::state, &RunRecord::began_unix_ms,
                   &RunRecord::ended_unix_ms, &RunRecord::progress, &RunRecord::told_seconds,
                   &RunRecord::why, &RunRecord::devices);
};

/// The last `limit` events, or, with `after`, the first ones after the event of that number.
struct EventsRequest {
  std::optional<std::uint64_t> after = {};
  std::uint32_t limit = 0;
  static constexpr auto fields = weft::fields(&EventsRequest::after, &EventsRequest::limit);
};
struct ClusterEvents {
  std::vector<ClusterEvent> events;  ///< oldest first
  std::uint64_t last = 0;            ///< number of the last of them, or of the last that there was
  static constexpr auto fields = weft::fields(&ClusterEvents::events, &ClusterEvents::last);
};

/// A host of the cluster, for who asks its processes.
struct Member {
  std::string name;
  ProcessRef agent;
  std::int64_t pid = 0;
  std::string machine;
  std::string silence;  ///< "does not answer since 12 s"; empty: it does
  static constexpr auto fields =
      weft::fields(&Member::name, &Member::agent, &Member::pid, &Member::machine, &Member::silence);
};

/// Of a process on a host, what is asked for of its log.
struct LogRequest {
  std::string host;
  LogPosition position;
  static constexpr auto fields = weft::fields(&LogRequest::host, &LogRequest::position);
};

}  // namespace weft::actors
