#include "actors/launch/run_supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "actors/access/user_state.h"
#include "actors/agent/binary_hashes.h"
#include "actors/agent/program_cache.h"
#include "actors/cluster/run_events.h"
#include "actors/launch/access_arguments.h"
#include "actors/launch/app_role.h"
#include "actors/launch/child_report.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/internal/time_limits.h"
#include "actors/launch/run_cluster.h"
#include "actors/launch/run_interruption.h"
#include "actors/launch/supervisor_event_queue.h"
#include "actors/supervision/orphans.h"
#include "actors/supervision/process_platform.h"
#include "actors/supervision/restart_budget.h"
#include "core/base/folder.h"
#include "core/base/memory_file.h"
#include "core/base/platform.h"
#include "core/base/terminal.h"

namespace weft::actors {
namespace {

/// Time for a driver to end by itself when its cluster is lost.
constexpr auto kDriverGrace = std::chrono::seconds(2);
/// Time for the death of another process to be reported, which a driver can notice earlier.
constexpr auto kBetterCauseWithin = std::chrono::milliseconds(60);
constexpr auto kLookForEditsEvery = std::chrono::seconds(1);

std::string head_cause(const ExitReport& evidence) {
  return fmt::format("the head (pid {}) {}{}", evidence.pid, evidence.summary(),
                     evidence.log_note());
}

void announce(const ClusterStatus& status) {
  std::vector<std::string> hosts;
  for (const HostStatus& line : status.hosts)
    hosts.push_back(fmt::format("{} ({} device{})", line.offer.name, line.offer.devices,
                                line.offer.devices == 1 ? "" : "s"));
  const std::string line = fmt::format("cluster {} at {}: {}", status.cluster.substr(0, 12),
                                       status.address, fmt::join(hosts, ", "));
  say(stdout, "{}\n", wrapped_for_terminal(STDOUT_FILENO, line));
  std::fflush(stdout);
}

/// Supervisor of one run, from its first process to its last.
class RunSupervisor {
 public:
  explicit RunSupervisor(SupervisedRun run);
  int run();

 private:
  std::filesystem::path copy_for_restarts(const std::filesystem::path& binary) const;
  void start_cluster();
  bool restart_during_start(const SupervisorEvent& event);
  [[noreturn]] void start_failed(const SupervisorEvent& event);
  ProcessSpec driver_spec() const;
  void start_driver();

  int supervise();
  std::optional<int> react(const SupervisorEvent& event);
  void head_died(const ExitReport& evidence);
  void host_died(const SupervisorEvent& event);
  std::optional<int> driver_ended(const ExitReport& evidence);
  int outcome_of(const ExitReport& evidence);
  void wait_for_better_cause();
  std::string describe_driver_end(const ExitReport& evidence) const;
  void report_edits();
  void print_outcome(int status) const;

  bool can_resume() const { return run_.check.restartable && run_.header.recovery.restarts > 0; }
  std::optional<std::size_t> admit(const std::string& host, const ExitReport& evidence,
                                   const std::string& what);
  bool restart_head(const ExitReport& evidence);
  bool restart_agent(const SupervisorEvent& event);
  bool restart_driver(const ExitReport& evidence);
  void report_restart(const char* kind, const std::string& text);
  void end_stopped(const ExitReport& evidence);
  std::string driver_cause(const ExitReport& evidence) const;

  SupervisedRun run_;
  const RunEvents events_;
  EditWatch edits_;
  const ProgramCache programs_;
  std::filesystem::path driver_program_;
  SupervisorEventQueue queue_;
  RunInterruption interruption_;  // made before any thread starts
  const std::unique_ptr<ProcessLauncher> launcher_ = make_launcher();
  RunCluster cluster_{run_, *launcher_, queue_};
  RestartBudget restarts_;  // counts all processes of the run; shared with its drivers
  std::string refusal_;     // reason against the last restart
  std::uint64_t driver_restarts_ = 0;
  std::optional<ExitReport> driver_stopped_;  // stopped driver, which gets SIGKILL
  std::optional<ExitReport> head_stopped_;    // stopped head, which gets SIGKILL
  ChildReport driver_said_;
  const MemoryFile refused_{"refused by the disk"};
  pid_t driver_ = 0;
  bool driver_interrupted_ = false;
  std::optional<TimePoint> driver_must_end_;  // time of SIGKILL
  std::optional<std::string> first_cause_;    // cause of the end of the run
  std::string last_words_;
};

RunSupervisor::RunSupervisor(SupervisedRun run)
    : run_(std::move(run)),
      events_(run_.out),
      edits_(run_.read_files),
      programs_(run_.out / "logs" / kPrograms, hash_directory()),
      interruption_(run_.header.name, events_, queue_,
                    run_.started_by.empty() ? EndRequestFilter::Parent::kNone
                                            : EndRequestFilter::Parent::kKills),
      restarts_(run_.header.recovery.restarts, run_.header.recovery.within) {}

int RunSupervisor::run() {
  become_subreaper();
  make_folders(run_.out / "logs", "choose another folder with --out");
  const RunInterruption::Processes processes(interruption_, *launcher_);
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
  interruption_.set_phase("its processes are ending");
  const auto grace = [this](Nanoseconds at_once) {
    return interruption_.at_once() ? at_once : Nanoseconds(internal::kStopGrace);
  };
  launcher_->stop_all(grace(Nanoseconds::zero()));
  reap_orphans(grace(RunInterruption::kEndWithin));
  programs_.remove();
  print_outcome(status);
  return status;
}

void RunSupervisor::print_outcome(int status) const {
  if (status == kInterrupted) say(stderr, "weft: run '{}' was interrupted\n", run_.header.name);
  if (status == 0 || status == kInterrupted) return;
  say(stderr, "{}\n",
      wrapped_for_terminal(
          STDERR_FILENO, fmt::format("weft: run '{}' failed: {}", run_.header.name, last_words_)));
  events_.add({"failed", last_words_});
}

/// Copies a program for all starts of this run and returns the path. Simulated processes share one.
std::filesystem::path RunSupervisor::copy_for_restarts(const std::filesystem::path& binary) const {
  if (Platform::simulated() != nullptr) return binary;
  return programs_.keep(binary, binary_sha256(binary, hash_directory()));
}

void RunSupervisor::start_cluster() {
  cluster_.start(
      [this] { return copy_for_restarts(std::filesystem::read_symlink("/proc/self/exe")); },
      [this] { return interruption_.requested(); });
  announce(cluster_.wait_for_hosts([this](const SupervisorEvent& event) {
    if (!restart_during_start(event)) start_failed(event);
  }));
}

/// Restarts a process that died while the cluster comes up. Returns false if the start has failed.
bool RunSupervisor::restart_during_start(const SupervisorEvent& event) {
  switch (event.kind) {
    case SupervisorEvent::Kind::kHeadDied: return restart_head(event.evidence);
    case SupervisorEvent::Kind::kHostDied:
      if (!can_resume()) return false;
      cluster_.report_host_death(event);
      end_stopped(event.evidence);
      return restart_agent(event);
    case SupervisorEvent::Kind::kHeadBack: return true;
    case SupervisorEvent::Kind::kCheckpointWanted:
      say(stderr, "weft: no checkpoint written: the run has not started yet\n");
      return true;
    default: return false;
  }
}

void RunSupervisor::start_failed(const SupervisorEvent& event) {
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

ProcessSpec RunSupervisor::driver_spec() const {
  ProcessSpec spec{"driver of " + run_.header.name,
                   app_command(driver_program_, "driver", run_.run_file, {}, {}),
                   {},
                   ""};
  const auto add = [&spec](std::vector<std::string> words) {
    for (std::string& word : words) spec.command.push_back(std::move(word));
  };
  add({"--binary", run_.header.app.string(), "--head", cluster_.head(), "--out", run_.out.string(),
       "--name", "run " + run_.header.name, "--last-words", driver_said_.path(), "--restarts",
       restarts_.path(), "--refused", refused_.path()});
  if (!run_.started_by.empty()) add({"--started-by", run_.started_by});
  if (!run_.moved.empty()) add({"--moved", run_.moved.string()});
  if (run_.check.restartable) add({"--restartable"});
  if (!run_.check.plan_digest.empty()) add({"--plan-digest", run_.check.plan_digest});
  if (driver_restarts_ > 0) add({"--restart", std::to_string(driver_restarts_)});
  add(token_arguments());
  add(to_arguments(run_.protection));
  spec.secret = cluster_.token();
  return spec;
}

void RunSupervisor::start_driver() {
  ProcessEvents events;
  events.on_death = [this](const ExitReport& evidence) {
    queue_.add({SupervisorEvent::Kind::kDriverEnded, "", evidence});
  };
  events.on_stopped = [this](const ExitReport& evidence) {
    queue_.add({SupervisorEvent::Kind::kDriverStopped, "", evidence});
  };
  const ProcessSpec spec = driver_spec();
  interruption_.set_phase("stopping after the driver's current step");
  driver_ = launcher_->launch(spec, events);
}

int RunSupervisor::supervise() {
  const SteadyClock clock;
  TimePoint next_look = clock.now() + kLookForEditsEvery;
  while (true) {
    const auto event =
        queue_.next(driver_must_end_ ? std::min(*driver_must_end_, next_look) : next_look);
    if (clock.now() >= next_look) {
      report_edits();
      next_look = clock.now() + kLookForEditsEvery;
    }
    if (event) {
      if (const auto status = react(*event)) return *status;
    } else if (driver_must_end_ && clock.now() >= *driver_must_end_) {
      launcher_->signal(driver_, SIGKILL);
      driver_must_end_.reset();
    }
  }
}

/// Returns the exit status once the run has ended.
std::optional<int> RunSupervisor::react(const SupervisorEvent& event) {
  switch (event.kind) {
    case SupervisorEvent::Kind::kSignal:
      launcher_->signal(driver_, driver_interrupted_ ? SIGKILL : SIGINT);
      driver_interrupted_ = true;
      break;
    case SupervisorEvent::Kind::kCheckpointWanted:
      launcher_->signal(driver_, kCheckpointSignal);
      break;
    case SupervisorEvent::Kind::kDriverStopped:
      driver_stopped_ = event.evidence;
      launcher_->signal(driver_, SIGKILL);
      break;
    case SupervisorEvent::Kind::kHeadDied: head_died(event.evidence); break;
    case SupervisorEvent::Kind::kHeadBack: cluster_.repeat_reports(); break;
    case SupervisorEvent::Kind::kHostDied: host_died(event); break;
    case SupervisorEvent::Kind::kDriverEnded: return driver_ended(event.evidence);
  }
  return std::nullopt;
}

void RunSupervisor::head_died(const ExitReport& evidence) {
  if (!driver_interrupted_ && restart_head(evidence)) return;
  if (!first_cause_ && !evidence.exited_cleanly())
    first_cause_ = refusal_.empty() ? head_cause(evidence) : refusal_ + evidence.log_note();
  end_stopped(evidence);
  driver_must_end_ = SteadyClock().now() + kDriverGrace;
}

void RunSupervisor::host_died(const SupervisorEvent& event) {
  cluster_.report_host_death(event);
  end_stopped(event.evidence);
  if (driver_interrupted_ || restart_agent(event)) return;
  // No other process would restart the agent, and the run would wait for it.
  if (!first_cause_) first_cause_ = refusal_;
  driver_must_end_ = SteadyClock().now() + kDriverGrace;
}

/// Returns the exit status; nullopt if the driver is started again.
std::optional<int> RunSupervisor::driver_ended(const ExitReport& evidence) {
  if (!driver_interrupted_ && !first_cause_ && restart_driver(evidence)) return std::nullopt;
  if (can_resume() && evidence.was_signalled()) cluster_.report_no_driver();
  if (!first_cause_ && !refusal_.empty()) first_cause_ = refusal_;
  if (!first_cause_ && driver_stopped_) first_cause_ = driver_cause(*driver_stopped_);
  report_edits();
  return outcome_of(evidence);
}

int RunSupervisor::outcome_of(const ExitReport& evidence) {
  const std::string said = driver_said_.read();
  // An interrupted driver that reports an error has failed all the same: the last checkpoint could
  // not be written.
  if (driver_interrupted_ && (said.empty() || evidence.was_signalled())) return kInterrupted;
  if (evidence.exited_cleanly()) return 0;
  // `weft cancel` has ended the driver, not this terminal.
  if (!evidence.was_signalled() && evidence.status == kInterrupted && said.empty())
    return kInterrupted;
  wait_for_better_cause();
  last_words_ = first_cause_ ? *first_cause_ : !said.empty() ? said : describe_driver_end(evidence);
  return evidence.signal == 0 && evidence.status == 2 ? 2 : 1;
}

/// Waits for the death of the head, which a driver can notice earlier.
void RunSupervisor::wait_for_better_cause() {
  const TimePoint until = SteadyClock().now() + kBetterCauseWithin;
  while (!first_cause_) {
    const auto event = queue_.next(until);
    if (!event) return;
    if (event->kind == SupervisorEvent::Kind::kHeadDied && !event->evidence.exited_cleanly())
      first_cause_ = head_cause(event->evidence);
  }
}

std::string RunSupervisor::describe_driver_end(const ExitReport& evidence) const {
  const std::string how =
      evidence.was_signalled() ? "died: " + evidence.cause() : "ended with " + evidence.cause();
  return fmt::format(
      "its driver {} (pid {}) {}; its output is above, the logs of the others in {}{}",
      run_.header.app.filename().string(), evidence.pid, how, (run_.out / "logs").string(),
      // The driver's output went to the terminal, so it was not searched.
      evidence.signal == SIGABRT
          ? fmt::format(". If an assertion in tcp_ep.c is there, it ended{}", kForeignUcxTraffic)
          : "");
}

/// Reports edits of input files, which count for the next run only.
void RunSupervisor::report_edits() {
  for (const std::string& edit : edits_.poll_edits()) {
    const std::string text =
        fmt::format("{}; this run continues with the version it read, saved in {}", edit,
                    run_.run_file.string());
    events_.add({"input edited", text});
    say(stderr, "{}\n", wrapped_for_terminal(STDERR_FILENO, "weft: " + text));
  }
}

std::string RunSupervisor::driver_cause(const ExitReport& evidence) const {
  return fmt::format("its driver {} (pid {}) {}", run_.header.app.filename().string(), evidence.pid,
                     evidence.summary());
}

void RunSupervisor::report_restart(const char* kind, const std::string& text) {
  events_.add({kind, text});
  say(stderr, "{}\n", wrapped_for_terminal(STDERR_FILENO, "weft: " + text));
}

/// Returns the number of the restart; nullopt, with the reason in refusal_, at the limit.
std::optional<std::size_t> RunSupervisor::admit(const std::string& host, const ExitReport& evidence,
                                                const std::string& what) {
  const auto decision = restarts_.record_death(
      {fmt::format("{} {}", host, evidence.pid), what, evidence.crash_signature()},
      SteadyClock().now());
  if (!decision.restart) refusal_ = restarts_.refusal(what, decision);
  return decision.restart;
}

/// Restarts an agent; the driver has lost devices replaced. Returns false if it has died too often.
bool RunSupervisor::restart_agent(const SupervisorEvent& event) {
  if (!cluster_.is_local() || !can_resume() || event.evidence.exited_cleanly() ||
      !event.evidence.silence_text.empty())
    return true;  // the end of a stopped process comes as another event
  const std::string what = fmt::format("the agent of {} (pid {}) {}", event.host,
                                       event.evidence.pid, event.evidence.summary());
  const auto number = admit(event.host, event.evidence, what);
  if (!number) return false;
  report_restart("agent restarted",
                 fmt::format("{}; started again, restart {} of {}; log: {}", what, *number,
                             restarts_.max_restarts(), event.evidence.log_file));
  cluster_.restart_agent(event.host);
  return true;
}

/// Restarts the driver after a crash, if the run can resume. An error exit ends the run.
bool RunSupervisor::restart_driver(const ExitReport& evidence) {
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
bool RunSupervisor::restart_head(const ExitReport& evidence) {
  if (!cluster_.is_local() || evidence.exited_cleanly()) return false;
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
  cluster_.restart_head();
  return true;
}

/// Ends a stopped process, which cannot end by itself.
void RunSupervisor::end_stopped(const ExitReport& evidence) {
  if (!evidence.silence_text.empty()) launcher_->stop(evidence.pid, Nanoseconds::zero());
}

}  // namespace

int supervise_run(SupervisedRun run) { return RunSupervisor(std::move(run)).run(); }

}  // namespace weft::actors
