#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "actors/access/user_state.h"
#include "actors/agent/agent.h"
#include "actors/agent/log_reader.h"
#include "actors/agent/program_cache.h"
#include "actors/cluster/head_link.h"
#include "actors/cluster/revocable_target.h"
#include "actors/head/head.h"
#include "actors/launch/access_arguments.h"
#include "actors/launch/child_signals.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/roles.h"
#include "actors/net/network.h"
#include "actors/supervision/process_platform.h"
#include "actors/supervision/signal_handler.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"
#include "core/base/folder.h"
#include "core/base/machine.h"
#include "core/base/memory.h"
#include "core/base/name.h"
#include "core/base/non_blocking_output.h"
#include "core/base/platform.h"

namespace weft::actors {
namespace {

constexpr auto kDeviceStopGrace = std::chrono::seconds(2);
constexpr auto kAgentDrainsWithin = std::chrono::seconds(5);
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

/// Interrupts the runs that the agent started, and waits a while for their ends. The head
/// hears of the leave later: else a driver could lose its devices before it has the signal, and its
/// run would fail instead of being interrupted.
void drain(const ActorRef<Agent>& agent) {
  try {
    agent.within(kAgentDrainsWithin).call<&Agent::drain>().get();
  } catch (const Error&) {
    // A run that was not interrupted ends when its devices do.
  }
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
    with_parent_.emplace(ChildSignals::SignalCallbacks{
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
  ProcessLauncher* launcher_ = nullptr;                         // guarded by mutex_
  EndRequestFilter requests_{EndRequestFilter::Parent::kNone};  // signals' thread only
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

/// Process of an agent: its actors, its connection to the head, and its end.
class AgentProcess final {
 public:
  explicit AgentProcess(const AgentRole& role);

  /// Joins the head and waits for a reason to end. Returns the exit status.
  int serve();

 private:
  SystemOptions system_options() const;
  void watch_peers();
  AgentEvents agent_events(const ActorRef<LogReader>& logs);
  ActorRef<Agent> host_actors();
  HeadLink::LinkCallbacks link_events();
  ActorRef<Head> head() const { return link_.head(); }
  void join_cluster();
  /// Blocks until no device process is in use, the grace has passed, or a second signal arrives.
  void wait_until_unused(const std::string& reason);

  const AgentRole& role_;
  const NonBlockingOutput output_;
  ExitRequest end_;
  AgentSignals signals_;
  const Log log_;
  const std::filesystem::path programs_;
  const HostRegistration offer_;
  std::atomic<std::size_t> processes_ = 0;  // number of device processes
  std::atomic<bool> shut_down_ = false;     // set by the head, which has told the owners
  // Declared before the system: the launcher must outlive the actors that use it.
  const std::unique_ptr<ProcessLauncher> launcher_ = make_launcher();
  const AgentSignals::Children children_{signals_, *launcher_};
  System system_;
  const RevocableTarget<HeadLink> ear_;
  ActorRef<Agent> agent_;
  HeadLink link_;
  std::optional<RevocableTarget<HeadLink>::Binding> binding_;
};

HostRegistration offer_of(const AgentRole& role) {
  check_name("the name of this host (--name)", role.name);
  make_folders(role.log_directory, "give another folder with --logs");
  HostRegistration offer{role.name,         role.devices,    process_id(),       machine_name(),
                         instruction_set(), role.has_parent, role.log_directory, num_processors()};
  offer.capacity = role.capacity;
  if (offer.capacity.cpus == 0) offer.capacity.cpus = offer.processors;
  if (offer.capacity.memory == 0) offer.capacity.memory = total_memory();
  return offer;
}

AgentProcess::AgentProcess(const AgentRole& role)
    : role_(role),
      signals_(role, end_),
      log_(Log::standard_output(role.log_level)),
      programs_(ControlNetwork::simulated() != nullptr
                    ? ""
                    : std::filesystem::path(role.log_directory) / kPrograms),
      offer_(offer_of(role)),
      system_(system_options()),
      link_(system_, role.head, link_events()) {
  watch_peers();
  agent_ = host_actors();
  binding_.emplace(ear_, link_);
}

SystemOptions AgentProcess::system_options() const {
  SystemOptions options;
  options.name = role_.name;
  options.token = role_.token;
  options.log = log_;
  role_.protection.apply(role_.head, options);
  if (role_.protection.insecure) warn_of_insecure(log_);
  if (TlsPolicy::tls_required(options.tls, role_.head.host) && !options.pinned && !role_.has_parent)
    log_.info(
        "the certificate of the head at {} is not verified: any process with the token could "
        "impersonate it. Use the --cert of the `weft join` command that the head prints",
        to_string(role_.head));
  options.relays_calls = false;
  options.io_share = ThreadPriority::kControl;
  return options;
}

void AgentProcess::watch_peers() {
  const auto gone = [ear = ear_](const ProcessRef& peer, const std::string& how) {
    ear.tell([&](HeadLink& link) { link.report_peer_loss(peer, how); });
  };
  system_.on_peer_eof(
      [gone](const ProcessRef& peer) { gone(peer, "disconnected: connection lost"); });
  system_.on_peer_disconnected([gone](const ProcessRef& peer, const Error& error, DisconnectCause) {
    gone(peer, "disconnected: " + error.message());
  });
  system_.on_peer_timed_out([this, gone](const ProcessRef& peer, Nanoseconds silence) {
    gone(peer, describe_silence(silence, 0));
    system_.named<Agent>(system_.self(), "agent")
        .tell<&Agent::process_timed_out>(peer.id, std::int64_t{silence.count()});
  });
}

AgentEvents AgentProcess::agent_events(const ActorRef<LogReader>& logs) {
  AgentEvents events;
  // A head that is away asks for deaths when it is back.
  events.on_death = [this](const ProcessRef& head, const DeathReport& report) {
    system_.named<Head>(head, "head").tell<&Head::process_died>(report);
  };
  events.on_run_end = [this](const ProcessRef& head, const DetachedRunExit& ended) {
    system_.named<Head>(head, "head").tell<&Head::detached_ended>(ended);
  };
  events.on_owner_end = [this](const ProcessRef& head, const OwnerExit& ended) {
    system_.named<Head>(head, "head").tell<&Head::report_owner_exit>(ended);
  };
  events.on_processes = [this](std::size_t count) { processes_ = count; };
  events.on_shut_down = [this](const std::string& reason) {
    shut_down_ = true;
    end_.set(0, reason);
    signals_.end_now().set(0, reason);
  };
  events.on_log = [logs](const LogId& name, std::uint64_t size) {
    logs.tell<&LogReader::log_opened>(name, size);
  };
  return events;
}

ActorRef<Agent> AgentProcess::host_actors() {
  const Address address = system_.listen({local_address_towards(role_.head), 0});
  const auto logs = system_.host_with<LogReader>("logs", [this](Context& context) {
    return std::make_unique<LogReader>(context, role_.log_directory);
  });
  std::vector<std::string> run_arguments = to_arguments(role_.protection);
  run_arguments.insert(run_arguments.end(), {"--head", to_string(role_.head)});
  return system_.host_with<Agent>("agent", [&](Context& context) {
    return std::make_unique<Agent>(
        context,
        AgentConfig{role_.name, address, role_.log_directory, hash_directory(),
                    role_.protection.insecure, role_.supervisor, run_arguments, programs_},
        agent_events(logs), *launcher_);
  });
}

HeadLink::LinkCallbacks AgentProcess::link_events() {
  HeadLink::LinkCallbacks events;
  events.greet = [this](const ProcessRef& head) {
    return join(system_, head, agent_, offer_, log_, end_);
  };
  events.on_away = [this](const std::string& how) {
    log_.warning("the head at {} {}; host {} continues and tries to reconnect",
                 to_string(role_.head), how, role_.name);
  };
  events.on_back = [this](const JoinReply& joined, Nanoseconds away) {
    if (signals_.leaves_cluster()) tell_drain(head(), end_.wait().text);
    log_.info("the head at {} is back after {:.1f} s (term {})", to_string(role_.head),
              in_seconds(away), joined.term);
  };
  // Without a head, the agent runs on as long as its processes are in use.
  events.gives_up = [this] { return processes_ == 0; };
  events.on_lost = [this](const Error& error) { end_.set(1, error.message()); };
  return events;
}

void AgentProcess::join_cluster() {
  try {
    const JoinReply joined = link_.join();
    log_.info("host {} has joined cluster {} (term {}) at {} with {} device{}; logs in {}",
              role_.name, joined.cluster.substr(0, 12), joined.term, to_string(role_.head),
              role_.devices, role_.devices == 1 ? "" : "s", role_.log_directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
  }
}

void AgentProcess::wait_until_unused(const std::string& reason) {
  log_.info(
      "host {} leaves the cluster: {}; waiting up to {:.0f} s for {} device process{} in use; "
      "send a second signal to end now",
      role_.name, reason, in_seconds(role_.grace), processes_.load(), processes_ == 1 ? "" : "es");
  drain(agent_);
  tell_drain(head(), reason);
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + role_.grace;
  while (processes_ > 0 && clock.now() < give_up &&
         !signals_.end_now().wait_for(kLookForDriversEvery))
    ;
  if (processes_ == 0) return;
  const std::string why = shut_down_ ? ": the cluster is stopped"
                          : clock.now() < give_up
                              ? ": a second signal"
                              : fmt::format(" after {:.0f} s (--grace)", in_seconds(role_.grace));
  log_.warning("host {} ends {} process{} that {} still in use{}", role_.name, processes_.load(),
               processes_ == 1 ? "" : "es", processes_ == 1 ? "is" : "are", why);
}

int AgentProcess::serve() {
  join_cluster();
  const auto reason = end_.wait();
  system_.set_exit_reason(reason.text);
  if (signals_.leaves_cluster() && processes_ > 0) wait_until_unused(reason.text);
  log_.info("host {} ends: {}", role_.name, reason.text);
  // Kills device processes whose owners were not told: a process that stops its actors would look
  // like a mistake of its owner.
  const bool heard = reason.status == 0 && (leave_cluster(head(), reason.text) || shut_down_);
  launcher_->stop_all(heard ? Nanoseconds(kDeviceStopGrace) : Nanoseconds::zero());
  // A parent has the same programs there, and may start another agent.
  if (!role_.has_parent) ProgramCache(programs_, {}).remove();
  return reason.status;
}

}  // namespace

int serve_agent(const AgentRole& role) { return AgentProcess(role).serve(); }

}  // namespace weft::actors
