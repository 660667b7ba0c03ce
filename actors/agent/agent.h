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
#include "actors/agent/kept_programs.h"
#include "actors/agent/log_messages.h"
#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/net/address.h"
#include "actors/net/connection_trial.h"
#include "actors/supervision/process_launcher.h"
#include "actors/system/context.h"
#include "core/network/interface_address.h"

namespace weft::actors {

struct AgentConfig {
  std::string name;
  Address address;  ///< where this process listens
  std::filesystem::path log_directory;
  std::filesystem::path hash_directory;  ///< of binary_sha256()
  bool insecure = false;                 ///< device processes use no TLS either
  /// The executable that serves the role "run", which starts detached runs; empty: none does.
  std::filesystem::path supervisor = {};
  std::vector<std::string> run_arguments = {};  ///< for them: the head, and how to reach it
  /// Where the programs of device processes are kept; see KeptPrograms. Empty: nowhere.
  std::filesystem::path program_directory = {};
};

/// What an agent tells the outside. Called on the agent's thread.
struct AgentEvents {
  /// Also of a device process that is stopped or silent: it counts as dead. `head`: who is to hear
  /// of it.
  std::function<void(const ProcessRef& head, const DeathReport&)> on_death;
  /// A detached run has ended.
  std::function<void(const ProcessRef& head, const DetachedEnd&)> on_run_end = {};
  /// An owner of device processes has ended, and has told this agent.
  std::function<void(const ProcessRef& head, const OwnerEnd&)> on_owner_end = {};
  /// How many device processes and runs there are, whenever that changes.
  std::function<void(std::size_t)> on_processes;
  std::function<void(const std::string& reason)> on_shut_down;
  /// A process begins to write this log, which has that size already. May be empty.
  std::function<void(const LogName&, std::uint64_t size)> on_log = {};
};

/// The parent of the device processes of one host: starts them, watches them, says why they died,
/// stops them.
///
/// One per host, hosted by the agent's main under the name "agent"; the head calls launch,
/// stop_mesh and shut_down, device processes call ready.
class Agent final {
 public:
  /// `launcher` outlives the actor; what it reports comes back to the actor's thread.
  Agent(Context& context, AgentConfig config, AgentEvents events, ProcessLauncher& launcher);
  ~Agent();

  /// From the agent's own process: `head` is about to be asked to let this host join, and may ask
  /// for launches before its answer is here. Gives what it is told then.
  HostedDevices joining(ProcessRef head);
  /// From the agent's own process: it has joined this head. Those of older terms have no say.
  void joined(ProcessRef head, std::uint64_t term, std::int64_t grace_ns);

  /// Starts the device processes of a mesh and waits until each can be called. All or nothing.
  /// Throws kIncompatible when the binary's SHA-256 differs or there is none, kFailedPrecondition
  /// when no process can start here until somebody mends the host, kPeerDied with exit evidence
  /// when a process is ended from outside before it is ready, kInternal when it fails by itself,
  /// kStaleEpoch when a head asks that another one has replaced, also meanwhile.
  /// This and what else starts or ends processes here: kFailedPrecondition for whoever is not the
  /// head that was joined last, or is being joined.
  task<std::vector<DeviceProcess>> launch(LaunchRequest request);
  /// From the device process of that slot: it can be called, and has that cap on its memory.
  /// Returns its device index.
  std::uint32_t ready(std::uint64_t slot, const MemoryCap& cap);
  /// Starts a run that somebody leaves to the cluster, as this process's child: it ends with it.
  /// Throws what launch() throws, and kFailedPrecondition where this agent cannot.
  DetachedRun start_run(const RunSubmission& submission, std::uint64_t term);
  /// SIGINT to a detached run, or SIGKILL. Throws kNotFound.
  void signal_run(std::uint64_t launch, bool now, std::uint64_t term);
  /// From the agent's own process: nothing has come from a process for so long.
  void process_silent(ProcessId process, std::int64_t silence_ns);
  /// Ends the device processes of a mesh, or those of some ranks of it: SIGTERM, and SIGKILL two
  /// seconds later; of a mesh that failed, SIGKILL. Answers when they are reaped.
  task<void> stop_mesh(MeshKey key, bool failed, std::uint64_t term,
                       std::vector<std::uint32_t> ranks);
  /// The device processes of these ranks, as far as they live, belong to another epoch of their
  /// mesh from here on. Gives the ranks of those that do.
  std::vector<std::uint32_t> take_over(const MeshKey& from, const MeshKey& to,
                                       const std::vector<std::uint32_t>& ranks, std::uint64_t term,
                                       ProcessId owner);
  /// Whether the device processes of these ranks all run: none has ended, is silent or is ending.
  bool run(const MeshKey& key, const std::vector<std::uint32_t>& ranks) const;
  /// From a program that owns meshes, and ends while it does not reach the head: ends its device
  /// processes on this host, and tells how it has ended to the head, or to the next one.
  void owner_ended(const RunEnd& end);
  /// Answers: what is asked of a host that is suspect.
  void ping() {}
  /// For the head: whether the agent of another host answers this one, soon.
  task<bool> probe(ProcessRef other);
  /// Addresses of this host that may carry tensors; see addresses_for_tensors().
  std::vector<InterfaceAddress> networks() const { return addresses_for_tensors(); }
  /// Lets other hosts try to reach `address` of this one for some seconds. Returns the port. Throws
  /// kUnavailable.
  std::uint16_t open_trial(const std::string& address);
  /// Tries connections for a second at most. Returns 1 for each that has succeeded, else 0.
  task<std::vector<std::uint8_t>> try_connections(std::vector<ConnectionTrial> trials);
  /// From the agent's own process, which leaves the cluster: nothing new starts here, and detached
  /// runs end as Ctrl-C ends them.
  void drain();
  /// Ends everything on this host, the agent included.
  void shut_down(const std::string& reason, std::uint64_t term);

  static constexpr auto endpoints = interface<"weft.agent", 4>(
      on<&Agent::joining>("joining", urgent), on<&Agent::joined>("joined", urgent),
      on<&Agent::launch>("launch"), on<&Agent::ready>("ready", urgent),
      on<&Agent::process_silent>("process_silent", urgent), on<&Agent::ping>("ping", urgent),
      on<&Agent::probe>("probe", urgent), on<&Agent::networks>("networks", urgent),
      on<&Agent::open_trial>("open_trial", urgent),
      on<&Agent::try_connections>("try_connections", urgent),
      on<&Agent::stop_mesh>("stop_mesh", urgent), on<&Agent::take_over>("take_over", urgent),
      on<&Agent::drain>("drain", urgent), on<&Agent::shut_down>("shut_down", urgent),
      on<&Agent::start_run>("start_run", urgent), on<&Agent::signal_run>("signal_run", urgent),
      on<&Agent::run>("run", urgent), on<&Agent::owner_ended>("owner_ended", urgent));

 private:
  struct Slot {
    MeshKey key;
    ProcessId owner;
    DeviceLaunch device;
    pid_t pid = 0;
    std::string log_file;
    std::optional<ProcessRef> process;  // once it is ready
    MemoryCap cap;                      // as it says then
    std::optional<ExitEvidence> death;
    bool launched = false;  // its launch() is over and was answered
    bool gone = false;      // reaped
    bool stopping = false;  // we ended it: not worth a report
  };

  void check_own_call() const;
  /// Throws Error(kUnavailable) once drain() has been called.
  void check_stays() const;
  /// The caller is this host's head, and no other one has replaced it.
  void check_head(std::uint64_t term) const;
  HostedDevices devices() const;
  void erase(std::uint64_t id);
  void check_binary(const std::string& binary, const std::string& sha256);
  /// Returns the file to start for a request: the program that this host has kept, or the one at
  /// its path, which is kept from here on. Throws as check_binary().
  std::string program_of(const LaunchRequest& request);
  void say_caps(const std::string& mesh, const std::vector<DeviceProcess>& processes) const;
  void start(std::uint64_t id, const LaunchRequest& request, const DeviceLaunch& device);
  void died(std::uint64_t id, const ExitEvidence& evidence);
  void reaped(std::uint64_t id);
  void run_ended(std::uint64_t launch, const ExitEvidence& evidence);
  std::size_t num_processes() const { return slots_.size() + runs_.size(); }
  /// Of a mesh, or of some ranks of it.
  struct Part {
    MeshKey key;
    std::vector<std::uint32_t> ranks;  // none: all
    bool has(const Slot& slot) const;
  };
  void stop_slots(const Part& part, Nanoseconds grace);
  bool has_slots(const Part& part) const;

  Context& context_;
  const AgentConfig config_;
  const AgentEvents events_;
  ProcessLauncher& launcher_;
  Wakeup changed_;                    // a slot became ready or died
  std::vector<Wakeup> reap_waiters_;  // of calls of stop_mesh(); each is notified once
  ProcessRef head_;
  ProcessRef next_head_;    // is being joined, or is head_
  std::uint64_t term_ = 0;  // of the head that was joined last
  std::int64_t grace_ns_ = 0;
  bool leaving_ = false;
  std::uint64_t last_slot_ = 0;
  const KeptPrograms programs_;
  std::map<std::uint64_t, Slot> slots_;
  std::map<MeshKey, std::vector<DeathReport>> deaths_;  // of meshes that have not been stopped
  std::map<std::uint64_t, TrialListener> trials_;       // by number of the trial
  std::uint64_t next_trial_ = 0;
  std::uint64_t last_launch_ = 0;
  std::map<std::uint64_t, pid_t> runs_;  // detached ones that have not ended
  std::deque<DetachedEnd> run_ends_;     // the last ones, for a head that was away
  std::deque<OwnerEnd> owner_ends_;      // the last ones, for the next head
};

}  // namespace weft::actors
