#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "actors/agent/agent.h"
#include "actors/agent/kept_programs.h"
#include "actors/agent/log_reader.h"
#include "actors/head/head.h"
#include "actors/launch/ear.h"
#include "actors/launch/head_link.h"
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
#include "core/base/unblocked_output.h"

namespace weft::actors {
namespace {

constexpr auto kDeviceStopGrace = std::chrono::seconds(2);
constexpr auto kHeadHearsWithin = std::chrono::milliseconds(500);
constexpr auto kAskForNameEvery = std::chrono::milliseconds(500);

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

/// Introduces this host to a head. Its name may be held by an agent that nobody hears of: until it
/// is known to be gone, or the head no longer waits for it.
Joined join(System& system, const ProcessRef& head, const ActorRef<Agent>& agent, HostOffer offer,
            const Log& log, ProcessEnd& end) {
  const auto asked = system.named<Head>(head, "head");
  for (bool told = false;; told = true) {
    Joined joined = asked.call<&Head::join>(offer, agent.call<&Agent::devices>().get()).get();
    if (!joined.held) {
      agent.call<&Agent::joined>(head, joined.term, joined.grace_ns).get();
      return joined;
    }
    const HeldName& held = *joined.held;
    if (held.machine == offer.machine && !process_lives(static_cast<pid_t>(held.pid))) {
      offer.replaces = held.agent;
      continue;
    }
    if (!told)
      log.warning(
          "the name {} belongs to an agent (pid {} on {}) that does not answer the head; waits "
          "until it is gone, or {:.0f} s at most; or give another --name",
          offer.name, held.pid, held.machine, in_seconds(Nanoseconds(held.free_in_ns)));
    if (end.wait_for(kAskForNameEvery))
      throw_error(ErrorCode::kCancelled, "this host ends: {}", end.wait().text);
  }
}

}  // namespace

int serve_agent(const AgentRole& role) {
  const UnblockedOutput output;
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
  role.protection.apply(role.head, options);
  if (role.protection.insecure) warn_of_insecure(log);
  if (Tls::is_due(options.tls, role.head.host) && !options.pinned && !role.has_parent)
    log.info(
        "the certificate of the head at {} is compared with none: whoever has the token could pass "
        "for it. Its `weft join` command has the right one (--cert)",
        to_string(role.head));
  options.io_share = ThreadShare::kControl;
  std::atomic<std::size_t> processes{0};  // of devices
  System system(options);
  const Ear<HeadLink> ear;
  const auto gone = [ear](const ProcessRef& peer, const std::string& how) {
    ear.tell([&](HeadLink& link) { link.peer_gone(peer, how); });
  };
  system.on_peer_suspect(
      [gone](const ProcessRef& peer) { gone(peer, "is gone: connection lost"); });
  system.on_peer_lost([gone](const ProcessRef& peer, const Error& error, Loss) {
    gone(peer, "is gone: " + error.message());
  });
  system.on_peer_silent([&system, gone](const ProcessRef& peer, Nanoseconds silence) {
    gone(peer, describe_silence(silence, 0));
    system.named<Agent>(system.self(), "agent")
        .tell<&Agent::process_silent>(peer.id, std::int64_t{silence.count()});
  });
  const Address address = system.listen({own_host_towards(role.head), 0});
  AgentEvents events;
  // Where the head is away, it asks for what has died when it is back.
  events.on_death = [&system](const ProcessRef& head, const DeathReport& report) {
    system.named<Head>(head, "head").tell<&Head::process_died>(report);
  };
  events.on_run_end = [&system](const ProcessRef& head, const DetachedEnd& ended) {
    system.named<Head>(head, "head").tell<&Head::detached_ended>(ended);
  };
  events.on_processes = [&processes](std::size_t count) { processes = count; };
  events.on_shut_down = [&end](const std::string& reason) { end.set(0, reason); };
  const auto logs = system.host_made<LogReader>("logs", [&role](Context& context) {
    return std::make_unique<LogReader>(context, role.log_directory);
  });
  events.on_log = [logs](const LogName& name, std::uint64_t size) {
    logs.tell<&LogReader::began>(name, size);
  };
  const std::filesystem::path programs =
      Network::simulated() != nullptr ? "" : std::filesystem::path(role.log_directory) / kPrograms;
  std::vector<std::string> run_arguments = role.protection.to_arguments();
  run_arguments.insert(run_arguments.end(), {"--head", to_string(role.head)});
  const auto agent = system.host_made<Agent>("agent", [&](Context& context) {
    return std::make_unique<Agent>(
        context,
        AgentConfig{role.name, address, role.log_directory, hash_directory(),
                    role.protection.insecure, role.supervisor, run_arguments, programs},
        events, *launcher);
  });
  HostOffer offer{role.name,         role.devices,    process_id(),       machine_name(),
                  instruction_set(), role.has_parent, role.log_directory, num_processors()};
  HeadLink::Events with_head;
  with_head.greet = [&](const ProcessRef& head) {
    return join(system, head, agent, offer, log, end);
  };
  with_head.on_away = [&](const std::string& how) {
    log.warning("the head at {} {}; host {} goes on, and looks for it", to_string(role.head), how,
                role.name);
  };
  with_head.on_back = [&](const Joined& joined, Nanoseconds away) {
    log.info("the head at {} is back after {:.1f} s (term {})", to_string(role.head),
             in_seconds(away), joined.term);
  };
  // As long as somebody uses what runs here, it goes on without a head.
  with_head.gives_up = [&processes] { return processes == 0; };
  with_head.on_lost = [&end](const Error& error) { end.set(1, error.message()); };
  HeadLink link(system, role.head, with_head);
  const Ear<HeadLink>::Open open(ear, link);
  try {
    const Joined joined = link.join();
    log.info("host {} has joined cluster {} (term {}) at {} with {} device{}; logs in {}",
             role.name, joined.cluster.substr(0, 12), joined.term, to_string(role.head),
             role.devices, role.devices == 1 ? "" : "s", role.log_directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
  }
  const auto reason = end.wait();
  log.info("host {} ends: {}", role.name, reason.text);
  if (reason.status == 0) leave(link.head(), reason.text);
  launcher->stop_all(reason.status == 0 ? Nanoseconds(kDeviceStopGrace) : Nanoseconds::zero());
  // A parent has the same programs there, and may start another agent.
  if (!role.has_parent) KeptPrograms(programs, {}).remove();
  return reason.status;
}

}  // namespace weft::actors
