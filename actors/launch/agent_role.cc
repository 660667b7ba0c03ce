#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "actors/agent/agent.h"
#include "actors/agent/log_reader.h"
#include "actors/agent/program_cache.h"
#include "actors/head/head.h"
#include "actors/launch/child_signals.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/head_link.h"
#include "actors/launch/revocable_target.h"
#include "actors/launch/roles.h"
#include "actors/launch/token.h"
#include "actors/net/network.h"
#include "actors/supervision/process_platform.h"
#include "actors/supervision/signal_handler.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"
#include "core/base/machine.h"
#include "core/base/name.h"
#include "core/base/non_blocking_output.h"
#include "core/base/platform.h"

namespace weft::actors {
namespace {

constexpr auto kDeviceStopGrace = std::chrono::seconds(2);
constexpr auto kHeadHearsWithin = std::chrono::milliseconds(500);
constexpr auto kAskForNameEvery = std::chrono::milliseconds(500);
constexpr auto kLookForDriversEvery = std::chrono::milliseconds(50);

/// Returns the widest vector instructions that the kernels know and this machine has.
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

/// Tells the head that this host leaves when its devices are unused.
void tell_drain(const ActorRef<Head>& head, const std::string& why) {
  try {
    head.tell<&Head::drain_host>(why);
  } catch (const Error&) {
    // If the head is away: drivers that were signalled, too, end by themselves.
  }
}

/// Waits for the head, so that the owners of this host's meshes learn the reason before their
/// devices end. Returns false if the head does not answer: it has ended, or is ending the cluster.
bool leave_cluster(const ActorRef<Head>& head, const std::string& why) {
  try {
    head.within(kHeadHearsWithin).call<&Head::leave>(why).get();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Reaction of an agent to signals. An agent that was started by hand, or by Slurm on its node,
/// leaves the cluster: its devices live until the drivers that use them are done. For an agent with
/// a parent see ChildSignals.
class AgentSignals final {
 public:
  /// Scope in which the agent's children are told to wait for the agent when it ends.
  class Children final {
   public:
    Children(AgentSignals& signals, ProcessLauncher& launcher) : signals_(signals) {
      set(&launcher);
    }
    ~Children() { set(nullptr); }
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;

   private:
    void set(ProcessLauncher* launcher) {
      const std::lock_guard lock(signals_.mutex_);
      signals_.launcher_ = launcher;
    }
    AgentSignals& signals_;
  };

  AgentSignals(const AgentRole& role, ExitRequest& end) : name_(role.name), end_(end) {
    if (!role.has_parent) {
      by_hand_.emplace([this](const ReceivedSignal& signal) { received(signal); });
      return;
    }
    const Log log = Log::standard_output(role.log_level);
    with_parent_.emplace(ChildSignals::Events{
        [this](const std::string& reason) { end_.set(0, reason); }, [this] { tell_children(); },
        [this, log](const std::string& text) { log.warning("host {}: {}", name_, text); }});
  }
  AgentSignals(const AgentSignals&) = delete;
  AgentSignals& operator=(const AgentSignals&) = delete;

  /// Returns true if a signal asked this agent to leave.
  bool leaves_cluster() const { return leaves_cluster_; }
  /// Returns the request to end now, even if devices are in use.
  ExitRequest& end_now() { return end_now_; }

 private:
  void received(const ReceivedSignal& signal) {
    if (!signal.asks_to_end()) return;
    const std::string reason = "stopped by " + signal.describe();
    switch (requests_.add(signal, SteadyClock().now())) {
      case EndRequestFilter::Kind::kEcho: return;
      case EndRequestFilter::Kind::kSecond: return end_now_.set(0, reason);
      case EndRequestFilter::Kind::kFirst: break;
    }
    leaves_cluster_ = true;
    tell_children();
    end_.set(0, reason);
  }
  void tell_children() {
    const std::lock_guard lock(mutex_);
    if (launcher_ != nullptr) launcher_->signal_all(kParentShutsDown);
  }

  const std::string name_;
  ExitRequest& end_;
  ExitRequest end_now_;
  std::atomic<bool> leaves_cluster_ = false;
  Mutex mutex_;
  ProcessLauncher* launcher_ = nullptr;  // guarded by mutex_
  EndRequestFilter requests_{false};     // used by the signals' thread
  // One of the two is set. Declared last: they use the members above.
  std::optional<SignalHandler> by_hand_;
  std::optional<ChildSignals> with_parent_;
};

/// Registers this host with a head. If an agent that does not answer holds its name, waits until
/// that agent is known to have ended, or the head releases the name.
JoinReply join(System& system, const ProcessRef& head, const ActorRef<Agent>& agent,
               HostRegistration offer, const Log& log, ExitRequest& end) {
  const auto asked = system.named<Head>(head, "head");
  for (bool told = false;;) {
    JoinReply joined =
        asked.call<&Head::join>(offer, agent.call<&Agent::prepare_join>(head).get()).get();
    if (!joined.name_holder) {
      agent.call<&Agent::complete_join>(head, joined.term, joined.grace_ns).get();
      return joined;
    }
    const NameHolder& held = *joined.name_holder;
    if (held.machine == offer.machine && !process_exists(static_cast<pid_t>(held.pid))) {
      offer.replaces = held.agent;
      continue;
    }
    if (held.free_in_ns > 0 && !std::exchange(told, true))
      log.warning(
          "the host name {} is used by an agent (pid {} on {}) that does not respond to the head; "
          "waiting up to {:.0f} s until that agent exits. To join now, use another --name",
          offer.name, held.pid, held.machine, in_seconds(Nanoseconds(held.free_in_ns)));
    if (end.wait_for(kAskForNameEvery))
      throw_error(ErrorCode::kCancelled, "this host ends: {}", end.wait().text);
  }
}

}  // namespace

int serve_agent(const AgentRole& role) {
  const NonBlockingOutput output;
  ExitRequest end;
  AgentSignals signals(role, end);
  check_name("the name of this host (--name)", role.name);
  std::filesystem::create_directories(role.log_directory);
  // Declared before the system: the launcher must outlive the actors that use it.
  const std::unique_ptr<ProcessLauncher> launcher = make_launcher();
  const AgentSignals::Children children(signals, *launcher);
  SystemOptions options;
  options.name = role.name;
  options.token = role.token;
  const Log log = Log::standard_output(role.log_level);
  options.log = log;
  role.protection.apply(role.head, options);
  if (role.protection.insecure) warn_of_insecure(log);
  if (TlsPolicy::tls_required(options.tls, role.head.host) && !options.pinned && !role.has_parent)
    log.info(
        "the certificate of the head at {} is not verified: any process with the token could "
        "impersonate it. Use the --cert of the `weft join` command that the head prints",
        to_string(role.head));
  options.io_share = ThreadPriority::kControl;
  std::atomic<std::size_t> processes{0};  // number of device processes
  std::atomic<bool> shut_down{false};     // set by the head, which has told the owners
  System system(options);
  const RevocableTarget<HeadLink> ear;
  const auto gone = [ear](const ProcessRef& peer, const std::string& how) {
    ear.tell([&](HeadLink& link) { link.report_peer_loss(peer, how); });
  };
  system.on_peer_eof(
      [gone](const ProcessRef& peer) { gone(peer, "disconnected: connection lost"); });
  system.on_peer_disconnected([gone](const ProcessRef& peer, const Error& error, DisconnectCause) {
    gone(peer, "disconnected: " + error.message());
  });
  system.on_peer_timed_out([&system, gone](const ProcessRef& peer, Nanoseconds silence) {
    gone(peer, describe_silence(silence, 0));
    system.named<Agent>(system.self(), "agent")
        .tell<&Agent::process_timed_out>(peer.id, std::int64_t{silence.count()});
  });
  const Address address = system.listen({local_address_towards(role.head), 0});
  AgentEvents events;
  // A head that is away asks for deaths when it is back.
  events.on_death = [&system](const ProcessRef& head, const DeathReport& report) {
    system.named<Head>(head, "head").tell<&Head::process_died>(report);
  };
  events.on_run_end = [&system](const ProcessRef& head, const DetachedRunExit& ended) {
    system.named<Head>(head, "head").tell<&Head::detached_ended>(ended);
  };
  events.on_owner_end = [&system](const ProcessRef& head, const OwnerExit& ended) {
    system.named<Head>(head, "head").tell<&Head::report_owner_exit>(ended);
  };
  events.on_processes = [&processes](std::size_t count) { processes = count; };
  events.on_shut_down = [&](const std::string& reason) {
    shut_down = true;
    end.set(0, reason);
    signals.end_now().set(0, reason);
  };
  const auto logs = system.host_with<LogReader>("logs", [&role](Context& context) {
    return std::make_unique<LogReader>(context, role.log_directory);
  });
  events.on_log = [logs](const LogId& name, std::uint64_t size) {
    logs.tell<&LogReader::log_opened>(name, size);
  };
  const std::filesystem::path programs =
      Network::simulated() != nullptr ? "" : std::filesystem::path(role.log_directory) / kPrograms;
  std::vector<std::string> run_arguments = role.protection.to_arguments();
  run_arguments.insert(run_arguments.end(), {"--head", to_string(role.head)});
  const auto agent = system.host_with<Agent>("agent", [&](Context& context) {
    return std::make_unique<Agent>(
        context,
        AgentConfig{role.name, address, role.log_directory, hash_directory(),
                    role.protection.insecure, role.supervisor, run_arguments, programs},
        events, *launcher);
  });
  HostRegistration offer{role.name,         role.devices,    process_id(),       machine_name(),
                         instruction_set(), role.has_parent, role.log_directory, num_processors()};
  HeadLink* known = nullptr;
  const auto to_head = [&known] { return known->head(); };
  HeadLink::Events with_head;
  with_head.greet = [&](const ProcessRef& head) {
    return join(system, head, agent, offer, log, end);
  };
  with_head.on_away = [&](const std::string& how) {
    log.warning("the head at {} {}; host {} continues and tries to reconnect", to_string(role.head),
                how, role.name);
  };
  with_head.on_back = [&](const JoinReply& joined, Nanoseconds away) {
    if (signals.leaves_cluster()) tell_drain(to_head(), end.wait().text);
    log.info("the head at {} is back after {:.1f} s (term {})", to_string(role.head),
             in_seconds(away), joined.term);
  };
  // Without a head, the agent runs on as long as its processes are in use.
  with_head.gives_up = [&processes] { return processes == 0; };
  with_head.on_lost = [&end](const Error& error) { end.set(1, error.message()); };
  HeadLink link(system, role.head, with_head);
  known = &link;
  const RevocableTarget<HeadLink>::Binding binding(ear, link);
  try {
    const JoinReply joined = link.join();
    log.info("host {} has joined cluster {} (term {}) at {} with {} device{}; logs in {}",
             role.name, joined.cluster.substr(0, 12), joined.term, to_string(role.head),
             role.devices, role.devices == 1 ? "" : "s", role.log_directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
  }
  const auto reason = end.wait();
  system.set_exit_reason(reason.text);
  if (signals.leaves_cluster() && processes > 0) {
    log.info(
        "host {} leaves the cluster: {}; waiting up to {:.0f} s for {} device process{} in use; "
        "send a second signal to end now",
        role.name, reason.text, in_seconds(role.grace), processes.load(),
        processes == 1 ? "" : "es");
    agent.tell<&Agent::drain>();
    tell_drain(link.head(), reason.text);
    const SteadyClock clock;
    const TimePoint give_up = clock.now() + role.grace;
    while (processes > 0 && clock.now() < give_up &&
           !signals.end_now().wait_for(kLookForDriversEvery))
      ;
    if (processes > 0)
      log.warning("host {} ends {} process{} that {} still in use{}", role.name, processes.load(),
                  processes == 1 ? "" : "es", processes == 1 ? "is" : "are",
                  shut_down ? ": the cluster is stopped"
                  : clock.now() < give_up
                      ? ": a second signal"
                      : fmt::format(" after {:.0f} s (--grace)", in_seconds(role.grace)));
  }
  log.info("host {} ends: {}", role.name, reason.text);
  // Kills device processes whose owners were not told: a process that stops its actors would look
  // like a mistake of its owner.
  const bool heard = reason.status == 0 && (leave_cluster(link.head(), reason.text) || shut_down);
  launcher->stop_all(heard ? Nanoseconds(kDeviceStopGrace) : Nanoseconds::zero());
  // A parent has the same programs there, and may start another agent.
  if (!role.has_parent) ProgramCache(programs, {}).remove();
  return reason.status;
}

}  // namespace weft::actors
