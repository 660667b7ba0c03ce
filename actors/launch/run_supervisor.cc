#include "actors/launch/run_supervisor.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>

#include "actors/agent/binary_hashes.h"
#include "actors/agent/program_cache.h"
#include "actors/head/head.h"
#include "actors/launch/child_report.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/head_link.h"
#include "actors/launch/internal/announced_wait.h"
#include "actors/launch/internal/time_limits.h"
#include "actors/launch/local_cluster.h"
#include "actors/launch/revocable_target.h"
#include "actors/launch/run_events.h"
#include "actors/launch/supervisor_event_queue.h"
#include "actors/launch/token.h"
#include "actors/supervision/orphans.h"
#include "actors/supervision/process_platform.h"
#include "actors/supervision/restart_budget.h"
#include "actors/supervision/signal_handler.h"
#include "actors/system/system.h"
#include "core/base/machine.h"
#include "core/base/platform.h"
#include "core/base/terminal.h"
#include "core/base/thread.h"
#include "core/base/units.h"

namespace weft::actors {
namespace {

constexpr auto kJoinWithin = std::chrono::seconds(20);
/// Time for a driver to end by itself when its cluster is lost.
constexpr auto kDriverGrace = std::chrono::seconds(2);
/// Time for the death of another process to be reported, which a driver can notice earlier.
constexpr auto kBetterCauseWithin = std::chrono::milliseconds(60);
/// Time to end after the second Ctrl-C; remaining processes then get the parent-death signal.
constexpr auto kEndWithin = std::chrono::milliseconds(1500);
constexpr auto kHeadToldWithin = std::chrono::milliseconds(500);
constexpr auto kGreetWithin = std::chrono::seconds(5);
constexpr auto kLookForEditsEvery = std::chrono::seconds(1);

std::vector<std::string> app_command(const std::filesystem::path& app, const std::string& role,
                                     const std::filesystem::path& run_file,
                                     const std::vector<std::string>& overrides,
                                     const std::filesystem::path& config_folder) {
  std::vector<std::string> command = {app.string(), "--weft-role=" + role, "--config",
                                      run_file.string()};
  for (const std::string& assignment : overrides)
    command.insert(command.end(), {"--set", assignment});
  if (!config_folder.empty())
    command.insert(command.end(), {"--config-folder", config_folder.string()});
  return command;
}

/// Supervisor of one run, from its first process to its last.
class RunSupervisor {
 public:
  explicit RunSupervisor(SupervisedRun run)
      : run_(std::move(run)),
        events_(run_.out),
        edits_(run_.read_files),
        programs_(run_.out / "logs" / kPrograms, hash_directory()),
        requests_(!run_.started_by.empty()),
        signals_([this](const ReceivedSignal& signal) { received(signal); }),
        restarts_(run_.header.recovery.restarts, run_.header.recovery.within) {}

  int run() {
    become_subreaper();
    std::filesystem::create_directories(run_.out / "logs");
    const Launched launched(*this);
    int status = 1;
    try {
      driver_program_ = copy_for_restarts(run_.header.app);
      start_cluster();
      start_driver();
      status = supervise();
    } catch (...) {
      const Error error = current_error();
      last_words_ = error.message();
      if (error.code() == ErrorCode::kCancelled) status = kInterrupted;
    }
    doing_ = "its processes are ending";
    launcher_->stop_all(at_once() ? Nanoseconds::zero() : Nanoseconds(internal::kStopGrace));
    reap_orphans(at_once() ? Nanoseconds(kEndWithin) : Nanoseconds(internal::kStopGrace));
    programs_.remove();
    print_outcome(status);
    return status;
  }

 private:
  /// Scope in which the second signal can kill all processes. Ends before the launcher.
  class Launched final {
   public:
    explicit Launched(RunSupervisor& supervisor) : supervisor_(supervisor) { set(true); }
    ~Launched() { set(false); }
    Launched(const Launched&) = delete;
    Launched& operator=(const Launched&) = delete;

   private:
    void set(bool there) {
      const std::lock_guard lock(supervisor_.ending_mutex_);
      supervisor_.launched_ = there;
      supervisor_.ended_.notify_all();
    }
    RunSupervisor& supervisor_;
  };

  bool at_once() const { return interruptions_ >= 2; }

  /// Handles a signal on the signals' thread, at any time of the run.
  void received(const ReceivedSignal& signal) {
    if (signal.number == kCheckpointSignal)
      queue_.add({SupervisorEvent::Kind::kCheckpointWanted, "", {}});
    if (signal.asks_to_end() &&
        requests_.add(signal, SteadyClock().now()) != EndRequestFilter::Kind::kEcho)
      interrupted(signal);
  }

  /// Prints what happens, and ends all processes the second time.
  void interrupted(const ReceivedSignal& signal) {
    const int count = ++interruptions_;
    events_.add({"interruption", fmt::format("{}{}", signal.describe(),
                                             count == 1 ? "" : ": stopping all processes now")});
    if (count == 1)
      say(stderr, "weft: {}: {}; press Ctrl-C again to stop now\n", signal.describe(),
          doing_.load());
    if (count == 2) say(stderr, "weft: {}: stopping all processes now\n", signal.describe());
    std::unique_lock lock(ending_mutex_);
    // The processes may have been signalled, too, but the last checkpoint needs them.
    if (count == 1 && launched_) launcher_->signal_all(kParentShutsDown);
    queue_.add({SupervisorEvent::Kind::kSignal, "", {}});
    if (count != 2 || !launched_) return;
    launcher_->signal_all(SIGKILL);
    if (ended_.wait_for(lock, kEndWithin, [this] { return !launched_; })) return;
    say(stderr, "weft: run '{}' was interrupted\n", run_.header.name);
    end_process(kInterrupted);
  }

  void print_outcome(int status) const {
    if (status == kInterrupted) say(stderr, "weft: run '{}' was interrupted\n", run_.header.name);
    if (status == 0 || status == kInterrupted) return;
    say(stderr, "{}\n",
        wrapped_for_terminal(STDERR_FILENO, fmt::format("weft: run '{}' failed: {}",
                                                        run_.header.name, last_words_)));
    events_.add({"failed", last_words_});
  }

  /// Copies a program for all starts of this run and returns the path. Simulated processes share
  /// one.
  std::filesystem::path copy_for_restarts(const std::filesystem::path& binary) const {
    if (Platform::simulated() != nullptr) return binary;
    return programs_.keep(binary, binary_sha256(binary, hash_directory()));
  }

  void start_cluster() {
    if (run_.head.empty()) {
      const auto on_death = [this](const std::string& who, const ExitReport& evidence) {
        queue_.add(
            {who == "head" ? SupervisorEvent::Kind::kHeadDied : SupervisorEvent::Kind::kHostDied,
             who, evidence});
      };
      const auto self = copy_for_restarts(std::filesystem::read_symlink("/proc/self/exe"));
      token_ = Secret::random();
      LocalCluster::Options local{self,     run_.header.cluster.hosts, run_.out, token_,
                                  on_death, run_.header.log_level};
      local.caps_devices = run_.header.cluster.memory != 0;
      local.note = [](const std::string& text) { say(stderr, "weft: {}\n", text); };
      local.gives_up = [this] { return interruptions_ > 0; };
      local_.emplace(*launcher_, std::move(local));
      run_.head = to_string(local_->head());
    } else {
      token_ = !run_.token.empty() ? run_.token
                                   : find_token(Address::parse(run_.head), run_.token_file,
                                                internal::kConnectWithin);
    }
    SystemOptions options;
    options.name = "weft run";
    options.token = token_;
    run_.protection.apply(Address::parse(run_.head), options);
    system_.emplace(options);
    const auto gone = [ear = ear_](const ProcessRef& peer, const std::string& how) {
      ear.tell([&](HeadLink& link) { link.report_peer_loss(peer, how); });
    };
    system_->on_peer_eof([gone](const ProcessRef& peer) { gone(peer, "disconnected"); });
    system_->on_peer_disconnected([gone](const ProcessRef& peer, const Error&, DisconnectCause) {
      gone(peer, "disconnected");
    });
    HeadLink::Events with_head;
    with_head.greet = [this](const ProcessRef& head) {
      const auto status =
          system_->named<Head>(head, "head").within(kGreetWithin).call<&Head::status>().get();
      return JoinReply{status.cluster, status.term, 0};
    };
    with_head.on_back = [this](const JoinReply&, Nanoseconds) {
      queue_.add({SupervisorEvent::Kind::kHeadBack, "", {}});
    };
    head_.emplace(*system_, Address::parse(run_.head), with_head);
    binding_.emplace(ear_, *head_);
    head_->join();
    wait_for_hosts();
  }

  void wait_for_hosts() {
    const SteadyClock clock;
    const TimePoint give_up = clock.now() + kJoinWithin;
    internal::AnnouncedWait announced("the hosts of the run", kJoinWithin);
    while (true) {
      const ClusterStatus status = head_->reach(kJoinWithin).head.call<&Head::status>().get();
      std::vector<std::string> missing;
      for (const HostSpec& host : run_.header.cluster.hosts) {
        bool joined = run_.header.recovery.is_spare(host.name);
        for (const HostStatus& line : status.hosts)
          joined = joined || (line.offer.name == host.name && !line.unreachable_seconds);
        if (!joined) missing.push_back(host.name);
      }
      if (missing.empty()) return announce(status);
      announced.update(fmt::format("{} to join", fmt::join(missing, ", ")));
      if (clock.now() > give_up) {
        const std::string advice =
            local_
                ? fmt::format("Their logs: {}/agent.NAME.log", local_->log_directory().string())
                : fmt::format("Start each with: weft join {} --name NAME --devices N", run_.head);
        throw_error(ErrorCode::kDeadlineExceeded, "these hosts of {} have not joined: {}. {}",
                    run_.original, fmt::join(missing, ", "), advice);
      }
      if (const auto event = queue_.next(clock.now() + internal::kAskHeadEvery))
        if (!restart_dead_process(*event)) start_failed(*event);
    }
  }

  /// Restarts a process that died while the cluster comes up. Returns false if the start has
  /// failed.
  bool restart_dead_process(const SupervisorEvent& event) {
    switch (event.kind) {
      case SupervisorEvent::Kind::kHeadDied: return restart_head(event.evidence);
      case SupervisorEvent::Kind::kHostDied:
        if (!can_resume()) return false;
        host_died(event);
        return restart_agent(event);
      case SupervisorEvent::Kind::kHeadBack: return true;
      case SupervisorEvent::Kind::kCheckpointWanted:
        say(stderr, "weft: no checkpoint written: the run has not started yet\n");
        return true;
      default: return false;
    }
  }

  [[noreturn]] void start_failed(const SupervisorEvent& event) {
    if (event.kind == SupervisorEvent::Kind::kSignal)
      throw_error(ErrorCode::kCancelled, "interrupted during start-up of the cluster");
    const std::string who =
        event.kind == SupervisorEvent::Kind::kHeadDied ? "the head" : "the agent of " + event.host;
    if (!event.evidence.silence_text.empty()) {
      launcher_->stop(event.evidence.pid, Nanoseconds::zero());
      throw_error(ErrorCode::kPeerDied, "{} (pid {}), while the cluster came up, {}{}", who,
                  event.evidence.pid, event.evidence.silence_text, event.evidence.log_note());
    }
    throw_error(ErrorCode::kPeerDied, "{} (pid {}) died during start-up of the cluster: {}{}", who,
                event.evidence.pid, event.evidence.cause(), event.evidence.log_note());
  }

  void announce(const ClusterStatus& status) const {
    std::vector<std::string> hosts;
    for (const HostStatus& line : status.hosts)
      hosts.push_back(fmt::format("{} ({} device{})", line.offer.name, line.offer.devices,
                                  line.offer.devices == 1 ? "" : "s"));
    const std::string line = fmt::format("cluster {} at {}: {}", status.cluster.substr(0, 12),
                                         status.address, fmt::join(hosts, ", "));
    say(stdout, "{}\n", wrapped_for_terminal(STDOUT_FILENO, line));
    std::fflush(stdout);
  }

  void start_driver() {
    ProcessSpec spec{"driver of " + run_.header.name,
                     app_command(driver_program_, "driver", run_.run_file, {}, {}),
                     {},
                     ""};
    spec.command.insert(
        spec.command.end(),
        {"--binary", run_.header.app.string(), "--head", run_.head, "--out", run_.out.string(),
         "--name", "run " + run_.header.name, "--last-words", driver_said_.path(), "--restarts",
         restarts_.path(), "--refused", refused_.path()});
    if (!run_.started_by.empty())
      spec.command.insert(spec.command.end(), {"--started-by", run_.started_by});
    if (!run_.moved.empty())
      spec.command.insert(spec.command.end(), {"--moved", run_.moved.string()});
    if (!run_.checked.empty()) spec.command.insert(spec.command.end(), {"--checked", run_.checked});
    if (driver_restarts_ > 0)
      spec.command.insert(spec.command.end(), {"--restart", std::to_string(driver_restarts_)});
    for (std::string& word : token_arguments()) spec.command.push_back(std::move(word));
    for (std::string& word : run_.protection.to_arguments())
      spec.command.push_back(std::move(word));
    spec.secret = system_->token();
    ProcessEvents events;
    events.on_death = [this](const ExitReport& evidence) {
      queue_.add({SupervisorEvent::Kind::kDriverEnded, "", evidence});
    };
    events.on_stopped = [this](const ExitReport& evidence) {
      queue_.add({SupervisorEvent::Kind::kDriverStopped, "", evidence});
    };
    doing_ = "stopping after the driver's current step";
    driver_ = launcher_->launch(spec, events);
  }

  int supervise() {
    const SteadyClock clock;
    std::optional<TimePoint> driver_must_end;
    bool interrupted = false;
    std::optional<std::string> first_cause;
    TimePoint next_look = clock.now() + kLookForEditsEvery;
    while (true) {
      const auto event =
          queue_.next(driver_must_end ? std::min(*driver_must_end, next_look) : next_look);
      if (clock.now() >= next_look) {
        report_edits();
        next_look = clock.now() + kLookForEditsEvery;
      }
      if (!event) {
        if (!driver_must_end || clock.now() < *driver_must_end) continue;
        launcher_->signal(driver_, SIGKILL);
        driver_must_end.reset();
        continue;
      }
      switch (event->kind) {
        case SupervisorEvent::Kind::kSignal:
          launcher_->signal(driver_, interrupted ? SIGKILL : SIGINT);
          interrupted = true;
          break;
        case SupervisorEvent::Kind::kCheckpointWanted:
          launcher_->signal(driver_, kCheckpointSignal);
          break;
        case SupervisorEvent::Kind::kDriverStopped:
          driver_stopped_ = event->evidence;
          launcher_->signal(driver_, SIGKILL);
          break;
        case SupervisorEvent::Kind::kHeadDied:
          if (!interrupted && restart_head(event->evidence)) break;
          if (!first_cause && !event->evidence.exited_cleanly())
            first_cause = refusal_.empty() ? head_cause(event->evidence)
                                           : refusal_ + event->evidence.log_note();
          end_stopped(event->evidence);
          driver_must_end = clock.now() + kDriverGrace;
          break;
        case SupervisorEvent::Kind::kHeadBack:
          for (const SupervisorEvent& death : std::exchange(unreported_deaths_, {}))
            host_died(death);
          break;
        case SupervisorEvent::Kind::kHostDied:
          host_died(*event);
          if (interrupted || restart_agent(*event)) break;
          // No other process would restart the agent, and the run would wait for it.
          if (!first_cause) first_cause = refusal_;
          driver_must_end = clock.now() + kDriverGrace;
          break;
        case SupervisorEvent::Kind::kDriverEnded:
          if (!interrupted && !first_cause && restart_driver(event->evidence)) break;
          if (can_resume() && event->evidence.was_signalled()) report_no_driver();
          if (!first_cause && !refusal_.empty()) first_cause = refusal_;
          if (!first_cause && driver_stopped_) first_cause = driver_cause(*driver_stopped_);
          report_edits();
          return driver_ended(event->evidence, interrupted, std::move(first_cause));
      }
    }
  }

  /// Reports edits of input files, which count for the next run only.
  void report_edits() {
    for (const std::string& edit : edits_.poll_edits()) {
      const std::string text =
          fmt::format("{}; this run continues with the version it read, saved in {}", edit,
                      run_.run_file.string());
      events_.add({"input edited", text});
      say(stderr, "{}\n", wrapped_for_terminal(STDERR_FILENO, "weft: " + text));
    }
  }

  void host_died(const SupervisorEvent& event) {
    const HostDeath death{event.host, event.evidence};
    try {
      const auto head = head_->reach({}).head.within(kHeadToldWithin);
      if (event.evidence.silence_text.empty()) head.tell<&Head::host_died>(death);
      // must precede the loss of its connection, which tells less
      else head.call<&Head::host_died>(death).get();
    } catch (const Error&) {
      unreported_deaths_.push_back(event);  // kept for the next head
    }
    end_stopped(event.evidence);
  }

  std::string driver_cause(const ExitReport& evidence) const {
    return fmt::format("its driver {} (pid {}) {}", run_.header.app.filename().string(),
                       evidence.pid, evidence.summary());
  }

  /// Returns true if the run can survive a death. Apps that have planned their steps resume from
  /// the run's folder; others would start again.
  bool can_resume() const { return !run_.checked.empty() && run_.header.recovery.restarts > 0; }

  void report_restart(const char* kind, const std::string& text) {
    events_.add({kind, text});
    say(stderr, "{}\n", wrapped_for_terminal(STDERR_FILENO, "weft: " + text));
  }

  /// Returns the number of the restart; nullopt, with the reason in refusal_, at the limit.
  std::optional<std::size_t> admit(const std::string& host, const ExitReport& evidence,
                                   const std::string& what) {
    const SteadyClock clock;
    const auto decision = restarts_.record_death(
        {fmt::format("{} {}", host, evidence.pid), what, evidence.crash_signature()}, clock.now());
    if (!decision.restart) refusal_ = restarts_.refusal(what, decision);
    return decision.restart;
  }

  /// Restarts an agent; the driver has lost devices replaced. Returns false if it has died too
  /// often.
  bool restart_agent(const SupervisorEvent& event) {
    if (!local_ || !can_resume() || event.evidence.exited_cleanly() ||
        !event.evidence.silence_text.empty())
      return true;  // the end of a stopped process comes as another event
    const std::string what = fmt::format("the agent of {} (pid {}) {}", event.host,
                                         event.evidence.pid, event.evidence.summary());
    const auto number = admit(event.host, event.evidence, what);
    if (!number) return false;
    report_restart("agent restarted",
                   fmt::format("{}; started again, restart {} of {}; log: {}", what, *number,
                               restarts_.max_restarts(), event.evidence.log_file));
    local_->restart_agent(event.host, system_->token());
    return true;
  }

  /// Tells the head that no other driver will come.
  void report_no_driver() {
    try {
      const RunDescription run{machine_name(), std::filesystem::absolute(run_.out)};
      head_->reach({}).head.tell<&Head::driver_given_up>(run.id());
    } catch (const Error&) {
      // A head that is away sees that none comes.
    }
  }

  /// Restarts the driver after a crash, if the run can resume. An error exit ends the run.
  bool restart_driver(const ExitReport& evidence) {
    if (!can_resume() || !evidence.was_signalled()) return false;
    const std::string what = driver_cause(driver_stopped_.value_or(evidence));
    const auto number = admit("driver", evidence, what);
    if (!number) return false;
    report_restart("driver restarted", fmt::format("{}; started again, restart {} of {}", what,
                                                   *number, restarts_.max_restarts()));
    driver_stopped_.reset();
    ++driver_restarts_;
    start_driver();
    return true;
  }

  /// Restarts the head at the same address, while the run continues. Returns false if it cannot.
  bool restart_head(const ExitReport& evidence) {
    if (!local_ || evidence.exited_cleanly()) return false;
    if (!evidence.silence_text.empty()) {
      // The end of a stopped process comes as another event.
      launcher_->signal(evidence.pid, SIGKILL);
      head_stopped_ = evidence;
      return true;
    }
    const ExitReport why = head_stopped_.value_or(evidence);
    head_stopped_.reset();
    const std::string what = fmt::format("the head (pid {}) {}", why.pid, why.summary());
    const auto number = admit("head", why, what);
    if (!number) return false;
    const std::string text =
        fmt::format("{}; started again, restart {} of {}, and the run goes on; log: {}", what,
                    *number, restarts_.max_restarts(), why.log_file);
    report_restart("head restarted", text);
    local_->restart_head(system_->token());
    return true;
  }

  /// Ends a stopped process, which cannot end by itself.
  void end_stopped(const ExitReport& evidence) {
    if (!evidence.silence_text.empty()) launcher_->stop(evidence.pid, Nanoseconds::zero());
  }

  int driver_ended(const ExitReport& evidence, bool interrupted,
                   std::optional<std::string> first_cause) {
    const std::string said = driver_said_.read();
    // An interrupted driver that reports an error has failed all the same: the last checkpoint
    // could not be written.
    if (interrupted && (said.empty() || evidence.was_signalled())) return kInterrupted;
    if (evidence.exited_cleanly()) return 0;
    // `weft cancel` has ended the driver, not this terminal.
    if (!evidence.was_signalled() && evidence.status == kInterrupted && said.empty())
      return kInterrupted;
    const SteadyClock clock;
    const TimePoint until = clock.now() + kBetterCauseWithin;
    while (!first_cause) {
      const auto event = queue_.next(until);
      if (!event) break;
      if (event->kind == SupervisorEvent::Kind::kHeadDied && !event->evidence.exited_cleanly())
        first_cause = head_cause(event->evidence);
    }
    const std::string how =
        evidence.was_signalled() ? "died: " + evidence.cause() : "ended with " + evidence.cause();
    if (first_cause) last_words_ = *first_cause;
    else if (!said.empty()) last_words_ = said;
    else
      last_words_ = fmt::format(
          "its driver {} (pid {}) {}; its output is above, the logs of the others in {}{}",
          run_.header.app.filename().string(), evidence.pid, how, (run_.out / "logs").string(),
          // The driver's output went to the terminal, so it was not searched.
          evidence.signal == SIGABRT
              ? fmt::format(". If an assertion in tcp_ep.c is there, it ended{}",
                            kForeignUcxTraffic)
              : "");
    return evidence.signal == 0 && evidence.status == 2 ? 2 : 1;
  }

  static std::string head_cause(const ExitReport& evidence) {
    return fmt::format("the head (pid {}) {}{}", evidence.pid, evidence.summary(),
                       evidence.log_note());
  }

  SupervisedRun run_;
  const RunEvents events_;
  EditWatch edits_;
  const ProgramCache programs_;
  std::filesystem::path driver_program_;
  SupervisorEventQueue queue_;
  std::atomic<int> interruptions_ = 0;
  EndRequestFilter requests_;  // used by the signals' thread
  std::atomic<const char*> doing_ = "stopping the start of the cluster";
  Mutex ending_mutex_;
  Condition ended_;
  bool launched_ = false;        // guarded by ending_mutex_: launcher_ exists
  const SignalHandler signals_;  // made before any thread starts
  const std::unique_ptr<ProcessLauncher> launcher_ = make_launcher();
  Secret token_;
  std::optional<LocalCluster> local_;
  std::optional<System> system_;
  const RevocableTarget<HeadLink> ear_;
  std::optional<HeadLink> head_;
  std::optional<RevocableTarget<HeadLink>::Binding> binding_;
  // host deaths that were not reported, as the head was away
  std::vector<SupervisorEvent> unreported_deaths_;
  RestartBudget restarts_;  // counts all processes of the run; shared with its drivers
  std::string refusal_;     // reason against the last restart
  std::uint64_t driver_restarts_ = 0;
  std::optional<ExitReport> driver_stopped_;  // stopped driver, which gets SIGKILL
  std::optional<ExitReport> head_stopped_;    // stopped head, which gets SIGKILL
  ChildReport driver_said_;
  const MemoryFile refused_{"refused by the disk"};
  pid_t driver_ = 0;
  std::string last_words_;
};

}  // namespace

int run_app_role(const std::filesystem::path& app, const std::string& role,
                 const std::filesystem::path& run_file, const std::vector<std::string>& overrides,
                 const std::vector<std::string>& more, const std::filesystem::path& config_folder) {
  SupervisorEventQueue queue;
  const SignalHandler signals([&](const ReceivedSignal& signal) {
    if (signal.asks_to_end()) queue.add({SupervisorEvent::Kind::kSignal, "", {}});
  });
  const std::unique_ptr<ProcessLauncher> launcher = make_launcher();
  ProcessSpec spec{role + " of " + app.filename().string(),
                   app_command(app, role, run_file, overrides, config_folder),
                   {},
                   ""};
  spec.command.insert(spec.command.end(), more.begin(), more.end());
  ProcessEvents events;
  events.on_death = [&](const ExitReport& evidence) {
    queue.add({SupervisorEvent::Kind::kDriverEnded, "", evidence});
  };
  const pid_t pid = launcher->launch(spec, events);
  const auto event = queue.next(std::nullopt);
  if (event->kind == SupervisorEvent::Kind::kSignal) {
    say(stderr, "weft: interrupted, '{}' ends\n", spec.label);
    return kInterrupted;  // the launcher's destructor ends the app
  }
  // The reader of its output has read enough: `weft plan cluster.yaml | head`.
  if (event->evidence.signal == SIGPIPE) return 0;
  // The request to end everything reached the app first.
  if (ReceivedSignal{event->evidence.signal}.asks_to_end()) return kInterrupted;
  if (event->evidence.was_signalled()) {
    say(stderr, "weft: {} (pid {}) died: {}\n", spec.label, pid, event->evidence.cause());
    return 1;
  }
  return event->evidence.status;
}

int supervise_run(SupervisedRun run) { return RunSupervisor(std::move(run)).run(); }

}  // namespace weft::actors
