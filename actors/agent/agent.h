#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "actors/agent/agent_config.h"
#include "actors/agent/agent_messages.h"
#include "actors/agent/detached_run.h"
#include "actors/agent/device_slots.h"
#include "actors/agent/joined_head.h"
#include "actors/agent/run_processes.h"
#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/net/connection_probe.h"
#include "actors/supervision/process_launcher.h"
#include "actors/system/context.h"
#include "core/network/interface_address.h"

namespace weft::actors {

/// Parent of the device processes of one host: starts, watches and stops them, and reports why they
/// died.
///
/// One per host, hosted by the agent's main under the name "agent". The head calls launch(),
/// stop_mesh() and shut_down(); device processes call device_ready().
class Agent final {
 public:
  /// `launcher` must outlive the actor. Its events are handled on the actor's thread.
  Agent(Context& context, AgentConfig config, AgentEvents events, ProcessLauncher& launcher);

  /// Prepares to join `head`, which may request launches before its reply to join() arrives.
  /// Returns the report to send to it. For the agent's own process.
  AgentReport prepare_join(ProcessRef head);
  /// Records that this host has joined `head`. Heads of older terms are rejected from now on. For
  /// the agent's own process.
  void complete_join(ProcessRef head, std::uint64_t term, std::int64_t grace_ns);

  /// Starts the device processes of a mesh and waits until each can be called. Starts all or none.
  /// Throws
  ///   kIncompatible        if the binary is missing or its SHA-256 differs,
  ///   kFailedPrecondition  if the host needs a repair before it can start processes,
  ///   kPeerDied            if a process is ended from outside first, with exit evidence,
  ///   kInternal            if a process fails by itself,
  ///   kStaleEpoch          if a newer head has replaced the caller, also meanwhile.
  /// All calls that start or end processes throw kFailedPrecondition unless the caller is the head
  /// that was joined last or is being joined.
  task<std::vector<DeviceProcess>> launch(LaunchRequest request);
  /// Records that the device process of `slot`, the caller, can be called, and its memory cap.
  /// Returns its device index. Throws kFailedPrecondition if another process has called it for this
  /// slot.
  std::uint32_t device_ready(std::uint64_t slot, const MemoryCap& cap);
  /// Starts a detached run as a child of this process, which ends with it. Throws what launch()
  /// throws, and kFailedPrecondition if this agent cannot start runs.
  DetachedRun start_run(const RunSubmission& submission, std::uint64_t term);
  /// Sends SIGINT to a detached run, or SIGKILL if `now`. Throws kNotFound.
  void signal_run(std::uint64_t launch, bool now, std::uint64_t term);
  /// Marks a device process that has been silent for `silence_ns` as dead. For the agent's own
  /// process.
  void process_timed_out(ProcessId process, std::int64_t silence_ns);
  /// Ends the device processes of a mesh, or only of `ranks` if given. Sends SIGTERM, and SIGKILL
  /// two seconds later; sends SIGKILL at once if the mesh has `failed`. Returns when they are
  /// reaped.
  task<void> stop_mesh(MeshKey key, bool failed, std::uint64_t term,
                       std::vector<std::uint32_t> ranks);
  /// Moves the living device processes of `ranks` to the epoch `to` of their mesh. Returns the
  /// ranks that it has moved.
  std::vector<std::uint32_t> adopt_ranks(const MeshKey& from, const MeshKey& to,
                                         const std::vector<std::uint32_t>& ranks,
                                         std::uint64_t term, ProcessId owner);
  /// Returns whether the device processes of `ranks` all run: none has ended, is silent or is
  /// ending.
  bool are_running(const MeshKey& key, const std::vector<std::uint32_t>& ranks) const;
  /// Ends the caller's device processes on this host, and reports its end to this head and the
  /// next. Called by an owner that ends without a connection to the head.
  void report_owner_exit(const RunResult& end);
  /// Returns the head that this host has joined, for the device processes here.
  ProcessRef joined_head() const { return head_.process(); }
  /// Does nothing. A reply proves that the agent responds.
  void ping() {}
  /// Returns whether the agent of another host answers ping() within 2 s. Called by the head.
  task<bool> probe(ProcessRef other);
  /// Returns addresses of this host that may carry tensors; see addresses_for_tensors().
  std::vector<InterfaceAddress> networks() const { return addresses_for_tensors(); }
  /// Listens at `address` for 10 s, so that other hosts can try to reach it. Returns the port.
  /// Throws kUnavailable.
  std::uint16_t open_trial(const std::string& address);
  /// Tries connections for 1 s at most. Returns 1 for each that succeeded, else 0.
  task<std::vector<std::uint8_t>> try_connections(std::vector<ConnectionProbe> trials);
  /// Rejects launches from now on, and sends SIGINT to detached runs, as the host leaves the
  /// cluster. Waits up to 3 s for their ends. For the agent's own process.
  task<void> drain();
  /// Shuts down this host: its processes and the agent end.
  void shut_down(const std::string& reason, std::uint64_t term);

  static constexpr auto endpoints = interface<"weft.agent", 4>(
      on<&Agent::prepare_join>("prepare_join", urgent),
      on<&Agent::complete_join>("complete_join", urgent), on<&Agent::launch>("launch"),
      on<&Agent::device_ready>("device_ready", urgent),
      on<&Agent::process_timed_out>("process_timed_out", urgent), on<&Agent::ping>("ping", urgent),
      on<&Agent::probe>("probe", urgent), on<&Agent::networks>("networks", urgent),
      on<&Agent::open_trial>("open_trial", urgent),
      on<&Agent::try_connections>("try_connections", urgent),
      on<&Agent::stop_mesh>("stop_mesh", urgent), on<&Agent::adopt_ranks>("adopt_ranks", urgent),
      on<&Agent::drain>("drain", urgent), on<&Agent::shut_down>("shut_down", urgent),
      on<&Agent::start_run>("start_run", urgent), on<&Agent::signal_run>("signal_run", urgent),
      on<&Agent::are_running>("are_running", urgent),
      on<&Agent::report_owner_exit>("report_owner_exit", urgent),
      on<&Agent::joined_head>("joined_head", urgent));

 private:
  void check_called_locally() const;
  /// Throws Error(kUnavailable) after drain().
  void check_not_leaving() const;
  void report_num_processes() const { events_.on_processes(slots_.size() + runs_.size()); }

  Context& context_;
  const AgentConfig config_;
  const AgentEvents events_;
  JoinedHead head_;
  bool leaving_ = false;
  RunProcesses runs_;
  DeviceSlots slots_;
  std::deque<OwnerExit> owner_ends_;  // Latest ends of owners, repeated to each new head.
  std::map<std::uint64_t, ProbeListener> trials_;  // Listeners by trial number.
  std::uint64_t next_trial_ = 0;
};

}  // namespace weft::actors
