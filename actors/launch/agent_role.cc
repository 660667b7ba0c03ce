#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "actors/agent/agent.h"
#include "actors/head/head.h"
#include "actors/launch/internal/time_limits.h"
#include "actors/launch/process_end.h"
#include "actors/launch/roles.h"
#include "actors/launch/token.h"
#include "actors/net/network.h"
#include "actors/supervision/processes.h"
#include "actors/supervision/signal_watch.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"
#include "core/base/machine.h"
#include "core/base/name.h"
#include "core/base/platform.h"

namespace weft::actors {
namespace {

constexpr auto kDeviceStopGrace = std::chrono::seconds(2);
constexpr auto kHeadHearsWithin = std::chrono::milliseconds(500);

/// The widest vector instructions that the kernels know and this machine has.
std::string instruction_set() {
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    if (!line.starts_with("flags")) continue;
    line += ' ';
    for (const auto& [flag, name] : {std::pair(" avx512f ", "avx512"), std::pair(" avx2 ", "avx2")})
      if (line.find(flag) != std::string::npos) return name;
    return "sse2";
  }
  return "baseline";
}

/// Waits for the head, so that the owners of this host's meshes hear why before their devices end.
void leave(const ActorRef<Head>& head, const std::string& why) {
  try {
    head.within(kHeadHearsWithin).call<&Head::leave>(why).get();
  } catch (const Error&) {
    // It is gone, or busy ending the cluster.
  }
}

}  // namespace

int serve_agent(const AgentRole& role) {
  ProcessEnd end;
  const SignalWatch signals(
      [&end](const ReceivedSignal& signal) { end.set(0, "stopped by " + signal.describe()); });
  check_name("the name of this host (--name)", role.name);
  std::filesystem::create_directories(role.log_directory);
  // Before the system: what the launcher reports must not come back to an actor that is gone.
  const std::unique_ptr<ProcessLauncher> launcher = make_launcher();
  SystemOptions options;
  options.name = role.name;
  options.token = role.token;
  const Log log = Log::standard_output(role.log_level);
  options.log = log;
  options.io_share = ThreadShare::kControl;
  System system(options);
  // A head that ends in good order says so first, by shut_down.
  std::atomic<std::uint64_t> head_id{0};
  const auto gone = [&](const ProcessRef& peer, const std::string& how) {
    if (peer.id.value() == head_id)
      end.set(1, fmt::format("the head at {} {}", to_string(role.head), how));
  };
  system.on_peer_suspect(
      [gone](const ProcessRef& peer) { gone(peer, "is gone: connection lost"); });
  system.on_peer_lost([gone](const ProcessRef& peer, const Error& error) {
    gone(peer, "is gone: " + error.message());
  });
  system.on_peer_silent([&system, gone](const ProcessRef& peer, Nanoseconds silence) {
    gone(peer, describe_silence(silence, 0));
    system.named<Agent>(system.self(), "agent")
        .tell<&Agent::process_silent>(peer.id, std::int64_t{silence.count()});
  });
  const Address address = system.listen({own_host_towards(role.head), 0});
  const ProcessRef head_process = system.connect(role.head, internal::kConnectWithin);
  head_id = head_process.id.value();
  const auto head = system.named<Head>(head_process, "head");
  AgentEvents events;
  events.on_death = [head](const DeathReport& report) { head.tell<&Head::process_died>(report); };
  events.on_shut_down = [&end](const std::string& reason) { end.set(0, reason); };
  system.host_made<Agent>("agent", [&](Context& context) {
    return std::make_unique<Agent>(
        context, AgentConfig{role.name, address, role.log_directory, hash_directory(), role.token},
        events, *launcher);
  });
  HostOffer offer{role.name,         role.devices,    process_id(),       machine_name(),
                  instruction_set(), role.has_parent, role.log_directory, num_processors()};
  const Joined joined = head.call<&Head::join>(offer).get();
  log.info("host {} has joined cluster {} (term {}) at {} with {} device{}; logs in {}", role.name,
           joined.cluster.substr(0, 12), joined.term, to_string(role.head), role.devices,
           role.devices == 1 ? "" : "s", role.log_directory);
  const auto reason = end.wait();
  log.info("host {} ends: {}", role.name, reason.text);
  if (reason.status == 0) leave(head, reason.text);
  launcher->stop_all(reason.status == 0 ? Nanoseconds(kDeviceStopGrace) : Nanoseconds::zero());
  return reason.status;
}

}  // namespace weft::actors
