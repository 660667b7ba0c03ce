#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "actors/access/token.h"
#include "actors/access/token_rotation.h"
#include "actors/cluster/keeper.h"
#include "actors/head/head.h"
#include "actors/launch/child_report.h"
#include "actors/launch/child_signals.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/roles.h"
#include "actors/net/network.h"
#include "actors/supervision/signal_handler.h"
#include "actors/system/system.h"
#include "core/base/non_blocking_output.h"
#include "core/base/platform.h"
#include "core/base/thread.h"
#include "core/network/interface_address.h"

namespace weft::actors {
namespace {

/// Time after a bare end of file for the better evidence of a parent.
constexpr auto kEofGrace = std::chrono::milliseconds(25);
/// Interval of checks for hosts and owners that have been away for too long.
constexpr auto kLookForAwayEvery = std::chrono::seconds(1);
constexpr auto kAgentAnswerTimeout = std::chrono::seconds(1);
/// Pause before a keeper that could not start is started again. It doubles with each try.
constexpr Nanoseconds kFirstStartAgainAfter = std::chrono::milliseconds(100);
constexpr Nanoseconds kLastStartAgainAfter = std::chrono::seconds(10);
/// Address of no machine (RFC 5737), which the default route leads to.
const Address kSomewhereElse{"192.0.2.1", 1};
/// Time in which the head writes its state when it ends.
constexpr auto kHeadEndsWithin = std::chrono::seconds(5);

/// Returns the token. A parent gives it to its children itself: without the file, only other
/// commands find no token.
Secret token_of(const HeadRole& role, const Log& log) {
  if (role.token.empty()) return load_or_make_token(role.state_directory);
  try {
    write_token(role.state_directory, role.token);
  } catch (const Error& error) {
    log.warning("{}; the run continues, but other weft commands find no token for this head",
                error.message());
  }
  return role.token;
}

/// Returns the identity by which others know this head; empty if no peer needs TLS.
TlsIdentity identity_of(const HeadRole& role, const Log& log) {
  const TlsMode mode = role.insecure ? TlsMode::kNever : TlsMode::kBeyondLoopback;
  if (!TlsPolicy::tls_required(mode, role.listen.host)) return {};
  try {
    return load_or_make_identity(role.state_directory);
  } catch (const Error& error) {
    // The token of a run's own cluster is proof enough among its processes.
    if (role.token.empty()) throw;
    log.warning("{}; the run continues with a temporary certificate", error.message());
    return {};
  }
}

/// Reaction of a head to signals. A head that was started by hand ends like one that has died:
/// hosts and runs wait for the next, so that a head can be upgraded under a running training. For a
/// head with a parent see ChildSignals; when its parent ends it, it tells owners and hosts why.
class HeadSignals final {
 public:
  /// Scope in which the cluster can be told.
  class Running final {
   public:
    Running(HeadSignals& signals, System& system) : signals_(signals) { set(&system); }
    ~Running() { set(nullptr); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    void set(System* system) {
      const std::lock_guard lock(signals_.mutex_);
      signals_.running_ = system;
    }
    HeadSignals& signals_;
  };

  HeadSignals(const HeadRole& role, ExitRequest& end, const Log& log) : end_(end) {
    if (role.has_parent) {
      with_parent_.emplace(ChildSignals::SignalCallbacks{
          [this](const std::string& reason) { stop_cluster("the head was " + reason); },
          {},
          [log](const std::string& text) { log.warning("head: {}", text); }});
      return;
    }
    by_hand_.emplace([this](const ReceivedSignal& signal) {
      if (!signal.asks_to_end()) return;
      leaves_the_rest_ = true;
      end_.set(0, "stopped by " + signal.describe());
    });
  }
  HeadSignals(const HeadSignals&) = delete;
  HeadSignals& operator=(const HeadSignals&) = delete;

  /// Returns true if hosts and runs continue without this head.
  bool keeps_cluster_running() const { return leaves_the_rest_; }

 private:
  void stop_cluster(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    // The second request does not wait for others.
    if (running_ == nullptr || std::exchange(asked_, true)) return end_.set(0, reason);
    running_->named<Head>(running_->self(), "head").tell<&Head::stop>(reason, true);
  }

  ExitRequest& end_;
  std::atomic<bool> leaves_the_rest_ = false;
  Mutex mutex_;
  System* running_ = nullptr;  // guarded by mutex_
  bool asked_ = false;         // guarded by mutex_
  // One of the two is set. Declared last: they use the members above.
  std::optional<SignalHandler> by_hand_;
  std::optional<ChildSignals> with_parent_;
};

/// Thread on which the keeper of actors that outlive runs starts, once it is needed.
class KeeperThread final {
 public:
  /// `head_system`: the system of the head, which listens at `head`.
  KeeperThread(System& head_system, const Address& head) : system_(head_system), head_(head) {}
  ~KeeperThread() { stop(); }
  KeeperThread(const KeeperThread&) = delete;
  KeeperThread& operator=(const KeeperThread&) = delete;

  /// Starts it, unless that was done. Does not block.
  void start() {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable() || ending_) return;
    thread_ = Thread("keeper", ThreadPriority::kOrdinary, [this] { run(); });
  }
  /// Ends the keeper, and its actors with it. start() does nothing from now on.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      if (keeper_) keeper_->stop();
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    keeper_.reset();
  }
  bool started() const {
    const std::lock_guard lock(mutex_);
    return thread_.joinable();
  }

 private:
  void run() {
    Nanoseconds pause = kFirstStartAgainAfter;
    while (!start_keeper()) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, pause, [this] { return ending_; })) return;
      pause = std::min(2 * pause, kLastStartAgainAfter);
    }
    keeper_->resume();
  }
  /// Returns false if it cannot start now, or is not to start any more.
  bool start_keeper() {
    try {
      SystemOptions options;
      options.name = kKeeperName;
      options.token = system_.token();
      options.tls = system_.options().tls;
      options.log = system_.options().log;
      if (is_any_address(head_.host)) options.advertise_host = reachable_host();
      auto keeper = std::make_unique<Keeper>(head_, std::move(options));
      const std::lock_guard lock(mutex_);
      if (ending_) return false;
      keeper_ = std::move(keeper);
      return true;
    } catch (const Error& error) {
      system_.options().log.warning(
          "the keeper of actors that outlive runs cannot start, and tries again: {}",
          error.describe());
      return false;
    }
  }
  /// Returns the host at which other machines reach this one, for a head that listens everywhere.
  std::string reachable_host() {
    const auto head = system_.named<Head>(system_.self(), "head");
    for (const Member& member : head.within(kAgentAnswerTimeout).call<&Head::members>().get())
      if (!is_loopback_address(member.agent.address.host))
        return local_address_towards(member.agent.address);
    return local_address_towards(kSomewhereElse);
  }

  System& system_;
  const Address head_;
  mutable Mutex mutex_;
  Condition changed_;
  bool ending_ = false;             // guarded by mutex_
  std::unique_ptr<Keeper> keeper_;  // guarded by mutex_; set once
  Thread thread_;                   // guarded by mutex_
};

/// Logs which hosts and runs wait for the next head.
void log_waiting_members(System& system, const HeadRole& role, const Address& address,
                         const Log& log) {
  ClusterStatus status;
  try {
    status = system.named<Head>(system.self(), "head")
                 .within(kAgentAnswerTimeout)
                 .call<&Head::status>()
                 .get();
  } catch (const Error&) {
    return;  // the head is busy; those that wait learn of its end anyway
  }
  if (status.hosts.empty() && status.runs.empty()) return;
  std::vector<std::string> who;
  for (const HostStatus& host : status.hosts) who.push_back("host " + host.offer.name);
  for (const RunStatus& run : status.runs) who.push_back(run.name);
  log.info(
      "{} {} up to {:.0f} s for a new head; running work continues. Start the head with: weft head "
      "--listen {} --state {}",
      fmt::join(who, ", "), who.size() == 1 ? "waits" : "wait", in_seconds(role.grace),
      to_string(address), role.state_directory);
  log.info("to end the cluster and its runs: weft stop --head {}, while a head runs",
           to_string(address));
}

/// Passes what the system learns of its peers to the head.
void report_peers(System& system) {
  system.on_refused([&system](const std::string& text) {
    system.named<Head>(system.self(), "head").tell<&Head::record_refusal>(text);
  });
  system.on_peer_disconnected([&system](const ProcessRef& peer, const Error&, DisconnectCause how) {
    system.named<Head>(system.self(), "head")
        .tell<&Head::peer_disconnected>(peer.id, how == DisconnectCause::kDisconnected);
  });
  system.on_peer_timed_out([&system](const ProcessRef& peer, Nanoseconds silence) {
    system.named<Head>(system.self(), "head")
        .tell<&Head::peer_timed_out>(peer.id, std::int64_t{silence.count()});
  });
  system.on_peer_suspected([&system](const ProcessRef& peer, std::optional<Nanoseconds> silence) {
    system.named<Head>(system.self(), "head")
        .tell<&Head::peer_suspected>(peer.id, silence ? std::int64_t{silence->count()} : -1);
  });
}

/// Ends the head's actor, which writes what its disk has refused so far.
void end_head_actor(const ActorRef<Head>& head) {
  try {
    head.within(kHeadEndsWithin).stop().get();
  } catch (const Error&) {
    // It has ended, or its disk takes too long.
  }
}

}  // namespace

int serve_head(const HeadRole& role) {
  const NonBlockingOutput output;
  ExitRequest end;
  const Log log = Log::standard_output(role.log_level);
  HeadSignals signals(role, end, log);
  SystemOptions options;
  options.name = "head";
  options.token = token_of(role, log);
  options.is_head = true;
  options.eof_grace = kEofGrace;
  options.relays_calls = false;
  options.io_share = ThreadPriority::kControl;
  options.log = log;
  options.identity = identity_of(role, log);
  if (role.insecure) {
    options.tls = TlsMode::kNever;
    warn_of_insecure(log);
  }
  System system(options);
  // Shared with the head's actor, which lives until the system ends.
  const auto rotator =
      std::make_shared<const TokenRotator>(system, role.state_directory, role.grace);
  report_peers(system);
  const Address address = system.listen(role.listen);
  // Shared like the rotator.
  const auto keeper = std::make_shared<KeeperThread>(system, address);
  const HeadEvents events{
      [log](const ClusterEvent& event) { log.info("{}", event.text); },
      [log](const std::string& warning) { log.warning("{}", warning); },
      [&end](const std::string& reason) { end.set(0, reason); },
      [rotator](const std::vector<ProcessId>& members) { return rotator->rotate(members); },
      [keeper] { keeper->start(); }};
  const auto head = system.host_with<Head>("head", [&](Context& context) {
    return std::make_unique<Head>(context,
                                  HeadConfig{address, role.state_directory, role.grace,
                                             role.ignore_saved_members, role.has_parent},
                                  events);
  });
  system.run_every(kLookForAwayEvery, [&system] {
    system.named<Head>(system.self(), "head").tell<&Head::expire_silent_peers>();
  });
  const HeadSignals::Running running(signals, system);
  const std::filesystem::path token_file = token_file_in(role.state_directory);
  std::optional<TokenLink> link(std::in_place, address.port, token_file, log);
  if (role.on_listening)
    role.on_listening(address, token_file,
                      options.identity.empty()
                          ? ""
                          : tls_library().certificate_sha256(options.identity.certificate));
  if (!role.report_path.empty())
    write_child_report(role.report_path, std::string(kListeningPrefix) + to_string(address));
  const auto reason = end.wait();
  if (signals.keeps_cluster_running()) log_waiting_members(system, role, address, log);
  log.info("head ends: {}", reason.text);
  system.set_exit_reason(reason.text);
  if (signals.keeps_cluster_running() && keeper->started()) {
    // An orderly end of the keeper would stop its actors, which wait for the next head.
    link.reset();
    end_head_actor(head);
    end_process(reason.status);
  }
  keeper->stop();
  return reason.status;
}

}  // namespace weft::actors
