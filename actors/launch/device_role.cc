#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "actors/agent/agent.h"
#include "actors/cluster/forwarding_spawner.h"
#include "actors/cluster/head_directory.h"
#include "actors/cluster/head_link.h"
#include "actors/launch/access_arguments.h"
#include "actors/launch/child_signals.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/roles.h"
#include "actors/supervision/memory_cap.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"
#include "core/base/non_blocking_output.h"
#include "core/base/platform.h"

namespace weft::actors {
namespace {

/// Silence of its agent after which a device process ends: before the head counts the host as lost,
/// after kDeathTimeout, and gives its devices to others. Two beats earlier, as either side may have
/// heard of the agent a beat later.
constexpr Nanoseconds kDeviceLease = kDeathTimeout - std::chrono::seconds(2);

constexpr auto kLookForUseEvery = std::chrono::seconds(1);

}  // namespace

int serve_device(const RoleArguments& arguments, const std::function<void(System&)>& provide) {
  const NonBlockingOutput output;
  const MemoryCap cap = own_memory_cap();
  set_out_of_memory_message(cap, arguments.get("label"));
  ExitRequest end;
  const char* level = std::getenv(kLogLevelVariable);
  const Log log = Log::standard_output(level == nullptr ? LogLevel::kInfo : parse_log_level(level));
  const std::string& label = arguments.get("label");
  std::atomic<bool> agent_leaves = false;
  const ChildSignals signals(
      {[&end, &agent_leaves](const std::string& reason) {
         // The agent ends processes that their run has given back.
         end.set(0, agent_leaves ? reason : "exits: its run has released it");
       },
       [&agent_leaves] { agent_leaves = true; },
       [&log, &label](const std::string& text) { log.warning("{}: {}", label, text); }});
  const Address agent_address = Address::parse(arguments.get("agent"));
  SystemOptions options;
  options.name = label;
  options.token = inherited_token(arguments);
  connection_security_of(arguments).apply(agent_address, options);
  options.log = log;
  // hash of this very file, which the agent has just checked
  options.binary_hash = arguments.get_or("sha256", "");
  options.run = arguments.number("run");
  options.binary_name = std::filesystem::read_symlink("/proc/self/exe").filename().string();
  options.dead_after = kDeviceLease;
  options.keep_actors_without_owner = true;
  // The processes of an agent share memory.
  options.memory_host = arguments.get("agent-id");
  if (const char* limit = std::getenv(kObjectMemoryVariable))
    options.object_memory = std::strtoull(limit, nullptr, 10);
  if (const char* folder = std::getenv(kObjectFolderVariable)) options.object_folder = folder;
  std::optional<TimePoint> unused_since;
  bool used = false;
  const auto unused = std::chrono::milliseconds(arguments.number("unused-ms"));
  System system(options);
  provide(system);
  // Ends this process when its agent is lost; the parent-death signal usually comes first. Running
  // handlers are cut off, as nobody waits for them any more.
  std::atomic<std::uint64_t> agent_id{0};
  const auto end_without = [&agent_id, &label, &log](const ProcessRef& peer,
                                                     const std::string& how) {
    if (peer.id.value() != agent_id) return;
    log.error("{}: exiting, because the agent {}", label, how);
    end_process(1);
  };
  system.on_peer_eof([end_without](const ProcessRef& peer) { end_without(peer, "disconnected"); });
  system.on_peer_timed_out([end_without](const ProcessRef& peer, Nanoseconds silence) {
    end_without(peer, describe_silence(silence, 0));
  });
  // Ends the process when its owner has disconnected and no head has reported that. A shared
  // process has no actors at times: it is in use while another process than the agent's is
  // connected.
  const bool is_shared = arguments.has("shared-process");
  system.run_every(kLookForUseEvery, [&, is_shared] {
    if (system.num_owned_actors() > 0 || (is_shared && system.peers().size() > 1)) {
      used = true;
      return unused_since.reset();
    }
    const TimePoint now = SteadyClock().now();
    if (!unused_since) unused_since = now;
    // If a head is there, it tells the agent to end this process, which happens first.
    if (used && agent_leaves && now - *unused_since >= kLookForUseEvery)
      end.set(0, "its run is done, and its agent leaves");
    if (now - *unused_since > unused)
      end.set(1, fmt::format("exits: unused for {:.0f} s", in_seconds(unused)));
  });
  system.listen({agent_address.host, 0});
  const ProcessRef agent_process = system.connect(
      agent_address, kConnectWithin, {.process = ProcessId(arguments.number("agent-id"))});
  agent_id = agent_process.id.value();
  // Hosted first: actors are spawned here as soon as the agent knows this process.
  host_directory(system, [&system, agent_process]() -> task<ProcessRef> {
    auto asked = system.named<Agent>(agent_process, "agent").call<&Agent::joined_head>();
    co_return co_await asked;
  });
  host_forwarding_spawner(system);
  system.named<Agent>(agent_process, "agent")
      .call<&Agent::device_ready>(arguments.number("slot"), cap)
      .get();
  log.info("{}: ready (pid {}, agent at {})", label, process_id(), to_string(agent_address));
  const auto reason = end.wait();
  log.info("{}: {}", label, reason.text);
  system.set_exit_reason(reason.text);
  return reason.status;
}

}  // namespace weft::actors
