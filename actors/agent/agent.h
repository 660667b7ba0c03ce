#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "actors/agent/detached_run.h"
#include "actors/agent/log_messages.h"
#include "actors/agent/program_cache.h"
#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/net/address.h"
#include "actors/net/connection_probe.h"
#include "actors/supervision/process_launcher.h"
#include "actors/system/context.h"
#include "core/network/interface_address.h"

namespace weft::actors {

struct AgentConfig {
  std::string name;
  Address address;  ///< Address at which this process listens.
  std::filesystem::path log_directory;
  std::filesystem::path hash_directory;  ///< Cache of binary_sha256().
  bool insecure = false;                 ///< No TLS in device processes.
  /// Executable that serves the role "run", which starts detached runs. Empty: this agent cannot
  /// start runs.
  std::filesystem::path run_executable = {};
  std::vector<std::string> run_arguments = {};  ///< Address of the head, and how to connect to it.
  /// Folder in which ProgramCache keeps the programs of device processes. Empty: they are not kept.
  std::filesystem::path program_directory = {};
};

/// Callbacks of an agent. Called on the agent's thread.
struct AgentEvents {
  /// Called when a device process dies, or counts as dead because it is stopped or silent. `head`:
  /// recipient of the report.
  std::function<void(const ProcessRef& head, const DeathReport&)> on_death;
  /// Called when a detached run ends.
  std::function<void(const ProcessRef& head, const DetachedRunExit&)> on_run_end = {};
  /// Called when an owner of device processes tells this agent that it has ended.
  std::function<void(const ProcessRef& head, const OwnerExit&)> on_owner_end = {};
  /// Called with the number of device processes and runs when it changes.
  std::function<void(std::size_t)> on_processes;
  std::function<void(const std::string& reason)> on_shut_down;
  /// Called when a process is about to write to a log of `size` bytes. May be empty.
  std::function<void(const LogId&, std::uint64_t size)> on_log = {};
};

/// Parent of the device processes of one host: starts, watches and stops them, and reports why they
/// died.
///
/// One per host, hosted by the agent's main under the name "agent". The head calls launch(),
/// stop_mesh() and shut_down(); device processes call device_ready().
class Agent final {
 public:
  /// `launcher` must outlive the actor. Its events are handled on the actor's thread.
  Agent(Context& context, AgentConfig config, AgentEvents events, ProcessLauncher& launcher);
  ~Agent();

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
  /// cluster. For the agent's own process.
  void drain();
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
      on<&Agent::report_owner_exit>("report_owner_exit", urgent));

 private:
  struct Slot {
    MeshKey key;
    ProcessId owner;
    DeviceLaunch device;
    pid_t pid = 0;
    std::string log_file;
    std::optional<ProcessRef> process;  // Set when it is ready.
    MemoryCap cap;                      // Reported by device_ready().
    std::optional<ExitReport> death;
    bool launched = false;  // True once launch() has returned it.
    bool reaped = false;
    bool stopping = false;  // This agent ends it: no death report.
  };

  void check_called_locally() const;
  /// Throws Error(kUnavailable) after drain().
  void check_not_leaving() const;
  /// Throws unless the caller is this host's head and no other head has replaced it.
  void check_head(std::uint64_t term) const;
  AgentReport devices() const;
  void erase(std::uint64_t id);
  void check_binary(const std::string& binary, const std::string& sha256);
  /// Returns the file to start for a request: the kept program, or the file at its path, which is
  /// kept from now on. Throws what check_binary() throws.
  std::string program_of(const LaunchRequest& request);
  void log_memory_caps(const std::string& mesh, const std::vector<DeviceProcess>& processes) const;
  void start(std::uint64_t id, const LaunchRequest& request, const DeviceLaunch& device);
  void died(std::uint64_t id, const ExitReport& evidence);
  void reaped(std::uint64_t id);
  void run_ended(std::uint64_t launch, const ExitReport& evidence);
  std::size_t num_processes() const { return slots_.size() + runs_.size(); }
  /// Mesh, or some of its ranks.
  struct MeshRanks {
    MeshKey key;
    std::vector<std::uint32_t> ranks;  // Empty: all.
    bool has(const Slot& slot) const;
  };
  void stop_slots(const MeshRanks& part, Nanoseconds grace);
  bool has_slots(const MeshRanks& part) const;

  Context& context_;
  const AgentConfig config_;
  const AgentEvents events_;
  ProcessLauncher& launcher_;
  Wakeup changed_;                    // Notified when slots change or a head is joined.
  std::vector<Wakeup> reap_waiters_;  // Calls of stop_mesh(); each is notified once.
  ProcessRef head_;
  ProcessRef next_head_;    // Head that is being joined, or head_.
  std::uint64_t term_ = 0;  // Term of head_.
  std::int64_t grace_ns_ = 0;
  bool leaving_ = false;
  std::uint64_t last_slot_ = 0;
  const ProgramCache programs_;
  std::map<std::uint64_t, Slot> slots_;
  // Deaths in meshes that have not been stopped.
  std::map<MeshKey, std::vector<DeathReport>> deaths_;
  std::map<std::uint64_t, ProbeListener> trials_;  // Listeners by trial number.
  std::uint64_t next_trial_ = 0;
  std::uint64_t last_launch_ = 0;
  std::map<std::uint64_t, pid_t> runs_;   // Running detached runs, by launch number.
  std::deque<DetachedRunExit> run_ends_;  // Latest ends of runs, repeated to each new head.
  std::deque<OwnerExit> owner_ends_;      // Latest ends of owners, repeated to each new head.
};

}  // namespace weft::actors
