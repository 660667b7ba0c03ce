#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/agent_config.h"
#include "actors/agent/agent_messages.h"
#include "actors/agent/joined_head.h"
#include "actors/agent/program_cache.h"
#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/supervision/process_launcher.h"
#include "actors/system/context.h"
#include "core/base/error.h"

namespace weft::actors {

/// Device processes of an agent, which is their parent. Each has a slot from its start until it is
/// reaped.
///
/// Owned by the agent; its thread only. Ends all processes when destroyed.
class DeviceSlots final {
 public:
  /// `config`, `events`, `head` and `launcher` must outlive this object. `on_change`: called when
  /// the number of slots changes.
  DeviceSlots(Context& context, const AgentConfig& config, const AgentEvents& events,
              const JoinedHead& head, ProcessLauncher& launcher, std::function<void()> on_change);
  ~DeviceSlots();
  DeviceSlots(const DeviceSlots&) = delete;
  DeviceSlots& operator=(const DeviceSlots&) = delete;

  /// Starts the device processes of a mesh and waits until each can be called. Starts all or none.
  /// Throws what Agent::launch() throws.
  task<std::vector<DeviceProcess>> launch(LaunchRequest request);
  /// Records that the device process of a slot, the caller, can be called, and its memory cap.
  /// Returns its device index. Throws kFailedPrecondition if another process has called it for this
  /// slot.
  std::uint32_t ready(std::uint64_t slot, const ProcessRef& caller, const MemoryCap& cap);
  /// Marks a device process that has been silent for `silence_ns` as dead.
  void timed_out(ProcessId process, std::int64_t silence_ns);
  /// Ends the device processes of a mesh, or only of `ranks` if given. Sends SIGTERM, and SIGKILL
  /// two seconds later; sends SIGKILL at once if the mesh has `failed`. Returns when they are
  /// reaped.
  task<void> stop_mesh(MeshKey key, bool failed, std::vector<std::uint32_t> ranks);
  /// Ends the device processes of an owner that has ended.
  void stop_meshes_of(ProcessId owner);
  /// Moves the living device processes of `ranks` to the epoch `to` of their mesh. Returns the
  /// ranks that it has moved.
  std::vector<std::uint32_t> adopt(const MeshKey& from, const MeshKey& to,
                                   const std::vector<std::uint32_t>& ranks, ProcessId owner);
  /// Returns whether the device processes of `ranks` all run: none has ended, is silent or is
  /// ending.
  bool are_running(const MeshKey& key, const std::vector<std::uint32_t>& ranks) const;
  /// Makes launches under way check again whether a newer head has replaced theirs.
  void head_changed() { changed_.notify(); }
  /// Announces that this agent ends all processes: their ends are no deaths from now on.
  void expect_ends();

  std::size_t size() const { return slots_.size(); }
  /// Adds the running processes, and the deaths in meshes that have not been stopped.
  void add_to(AgentReport& report) const;

 private:
  struct DeviceSlot {
    MeshKey key;
    ProcessId owner;
    DeviceLaunch device;
    pid_t pid = 0;
    std::string log_file;
    std::optional<ProcessRef> process;  // Set when it is ready.
    MemoryCap cap;                      // Reported by ready().
    std::optional<ExitReport> death;
    bool launched = false;  // True once launch() has returned it.
    bool reaped = false;
    bool stopping = false;  // This agent ends it: no death report.

    bool is_running() const { return launched && !death && !stopping && !reaped; }
  };
  /// Mesh, or some of its ranks.
  struct MeshRanks {
    MeshKey key;
    std::vector<std::uint32_t> ranks;  // Empty: all.
    bool has(const DeviceSlot& slot) const;
  };

  /// Returns the file to start for a request: the kept program, or the file at its path, which is
  /// kept from now on. Throws what check_binary() throws.
  std::string program_of(const LaunchRequest& request) const;
  void start(std::uint64_t id, const LaunchRequest& request, const DeviceLaunch& device);
  /// Waits until the processes of all slots can be called. Returns why they never will, or nothing.
  task<std::optional<Error>> await_ready(MeshKey key, std::uint64_t term,
                                         std::vector<std::uint64_t> ids);
  std::optional<Error> start_failure(const MeshKey& key, std::uint64_t term,
                                     const std::vector<std::uint64_t>& ids) const;
  bool all_ready(const std::vector<std::uint64_t>& ids) const;
  DeviceProcess process_of(const DeviceSlot& slot) const;
  void log_memory_caps(const std::string& mesh, const std::vector<DeviceProcess>& processes) const;
  void died(std::uint64_t id, const ExitReport& evidence);
  void reaped(std::uint64_t id);
  void erase(std::uint64_t id);
  void stop(const MeshRanks& part, Nanoseconds grace);
  bool has_slots(const MeshRanks& part) const;

  Context& context_;
  const AgentConfig& config_;
  const AgentEvents& events_;
  const JoinedHead& head_;
  ProcessLauncher& launcher_;
  const std::function<void()> on_change_;
  const ProgramCache programs_;
  Wakeup changed_;                    // Notified when slots change or a head is joined.
  std::vector<Wakeup> reap_waiters_;  // Calls of stop_mesh(); each is notified once.
  std::uint64_t last_slot_ = 0;
  std::map<std::uint64_t, DeviceSlot> slots_;
  // Deaths in meshes that have not been stopped.
  std::map<MeshKey, std::vector<DeathReport>> deaths_;
};

}  // namespace weft::actors
