#include "actors/launch/app_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>

#include "actors/launch/child_report.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/internal/time_limits.h"
#include "actors/launch/local_cluster.h"
#include "actors/launch/revocable_target.h"
#include "actors/launch/role_arguments.h"
#include "actors/launch/roles.h"
#include "actors/launch/run_events.h"
#include "actors/launch/token.h"
#include "actors/supervision/orphans.h"
#include "actors/supervision/process_platform.h"
#include "actors/supervision/signal_handler.h"
#include "core/base/clock.h"
#include "core/base/descriptors.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/non_blocking_output.h"
#include "core/base/platform.h"
#include "core/base/terminal.h"
#include "core/base/thread.h"
#include "core/config/config_problem.h"
#include "core/config/nearest.h"
#include "core/crash/crash_report.h"

namespace weft::actors {
namespace {

constexpr auto kHostsWithin = std::chrono::seconds(30);
/// Time after a lost connection in which its cause may arrive.
constexpr auto kRootCauseTimeout = std::chrono::milliseconds(500);
/// Time for the answer to a cancel request to leave before the process ends.
constexpr auto kAnswerLeavesWithin = std::chrono::milliseconds(50);

/// Reaction of a driver to signals. The first SIGINT, SIGTERM or SIGHUP requests the end and prints
/// what happens. A second request, or the first where nothing would be lost, ends the process at
/// once (children get the parent-death signal). SIGUSR1 requests a checkpoint.
class Interruption {
 public:
  enum class Parent {
    kWeftRun,  ///< Sends SIGKILL for an end at once.
    kNone,
  };
  explicit Interruption(Parent parent) : requests_(parent == Parent::kWeftRun) {}
  /// Returns true if a checkpoint was requested since the last call. Any thread.
  bool take_checkpoint_request() { return checkpoint_asked_.exchange(false); }
  std::stop_token token() const { return source_.get_token(); }
  bool requested() const { return source_.stop_requested(); }
  void doing(const std::string& text, OnInterrupt then) {
    const std::lock_guard lock(mutex_);
    doing_ = text;
    then_ = then;
  }
  /// Result of cancel(): what the driver does until its end, and whether the caller must end the
  /// process after passing that on.
  struct Cancelled {
    std::string doing;
    bool ends_at_once = false;
  };
  /// Requests the end like the first signal, or, with `now`, like the second.
  Cancelled cancel(bool now) {
    source_.request_stop();
    const std::lock_guard lock(mutex_);
    now = now || then_ == OnInterrupt::kEndsAtOnce;
    const std::string doing = now              ? "it stops immediately"
                              : doing_.empty() ? "it stops after its current work"
                                               : doing_;
    say(stderr, "  weft cancel: {}\n", doing);
    return {doing, now};
  }

 private:
  void received(const ReceivedSignal& signal) {
    if (signal.number == kCheckpointSignal) checkpoint_asked_ = true;
    if (signal.asks_to_end()) interrupted(requests_.add(signal, SteadyClock().now()));
  }
  void interrupted(EndRequestFilter::Kind kind) {
    if (kind == EndRequestFilter::Kind::kEcho) return;
    if (kind == EndRequestFilter::Kind::kSecond) end_process(kInterrupted);
    source_.request_stop();
    const std::lock_guard lock(mutex_);
    const bool now = then_ == OnInterrupt::kEndsAtOnce;
    if (!doing_.empty())
      say(stderr, "  interrupted: {}{}\n", doing_, now ? "; no work is lost, stopping now" : "");
    if (now) end_process(kInterrupted);
  }

  Mutex mutex_;
  std::string doing_ = "joining the cluster";    // guarded by mutex_
  OnInterrupt then_ = OnInterrupt::kEndsAtOnce;  // guarded by mutex_
  std::stop_source source_;
  std::atomic<bool> checkpoint_asked_ = false;
  EndRequestFilter requests_;  // used by the signals' thread
  const SignalHandler signals_{[this](const ReceivedSignal& signal) { received(signal); }};
};

/// Time limit of a clean-up. Ends the process if a destructor waits for a device, a connection or a
/// disk that never answers.
class CleanUpWatchdog final {
 public:
  CleanUpWatchdog(System& system, Cluster& cluster, Interruption& interruption)
      : system_(system), cluster_(cluster), interruption_(interruption) {}
  ~CleanUpWatchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  CleanUpWatchdog(const CleanUpWatchdog&) = delete;
  CleanUpWatchdog& operator=(const CleanUpWatchdog&) = delete;

  /// Starts the limit. The driver's thread; later calls do nothing.
  void begin() {
    if (thread_.joinable()) return;
    system_.set_exit_reason("its run is complete; releasing its devices");
    thread_ = Thread("clean-up-limit", ThreadPriority::kOrdinary, [this] { watch(); });
  }

 private:
  void watch() {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, AppRun::kCleanUpWithin, [this] { return over_; })) return;
    }
    const int status = interruption_.requested() ? kInterrupted : 0;
    say(stderr,
        "weft: the run is complete, but its clean-up did not finish within {:.0f} s and was cut "
        "off, waiting for: {}\n",
        in_seconds(AppRun::kCleanUpWithin), describe_own_calls());
    cluster_.report_end({status == 0 ? RunState::kDone : RunState::kInterrupted, ""});
    end_process(status);
  }
  std::string describe_own_calls() const {
    std::string text;
    for (const WaitingCall& call : system_.waiting_calls())
      text += fmt::format("{}'{}' to {}", text.empty() ? "" : ", ", call.method, call.target.label);
    return text.empty() ? "its threads for transfers and devices" : text;
  }

  System& system_;
  Cluster& cluster_;
  Interruption& interruption_;
  Mutex mutex_;
  Condition changed_;
  bool over_ = false;  // guarded by mutex_
  Thread thread_;
};

std::filesystem::path own_executable() { return std::filesystem::read_symlink("/proc/self/exe"); }
std::string own_name() { return own_executable().filename().string(); }

AppRun make_run(const RoleArguments& arguments) {
  AppRun run;
  run.checked = arguments.get_or("checked", "");
  if (arguments.has("restart")) run.restart = arguments.number("restart");
  run.restarts = arguments.get_or("restarts", "");
  run.refused = arguments.get_or("refused", "");
  if (const std::string place = arguments.get_or("planned-to", ""); !place.empty())
    run.planned = [place](const std::string& digest) { write_child_report(place, digest); };
  run.config = arguments.get_or("config", "");
  run.config_folder = arguments.get_or("config-folder", "");
  run.started_by = arguments.get_or("started-by", "");
  run.moved = arguments.get_or("moved", "");
  run.overrides = arguments.all("set");
  run.out = arguments.get_or("out", "");
  run.json = arguments.has("json");
  run.quiet = arguments.has("quiet");
  run.programs = arguments.get_or("programs", "");
  run.layouts = arguments.get_or("layouts", "");
  run.svg = arguments.get_or("svg", "");
  if (arguments.has("strategy")) run.strategy = arguments.get("strategy");
  run.head = arguments.get_or("head", "");
  run.binary = arguments.get_or("binary", "");
  return run;
}

void connect(AppRun& run, Interruption& interruption) {
  run.stop = interruption.token();
  run.on_phase = [&interruption](const std::string& text, OnInterrupt then) {
    interruption.doing(text, then);
  };
  run.checkpoint_requested = [&interruption] { return interruption.take_checkpoint_request(); };
}

/// Sections of the run file that all processes of a run need. Mistakes in other sections are not
/// reported here.
struct ProcessConfig {
  ClusterConfig cluster;
  RecoveryConfig recovery;
  LogLevel log_level = LogLevel::kInfo;
};
ProcessConfig process_config_of(const AppRun& run) {
  ProcessConfig config;
  if (run.config.empty()) return config;
  const ConfigNode root = run.document().root();
  if (const auto section = cluster_section(root)) config.cluster = parse_cluster(*section);
  if (const auto section = recovery_section(root))
    config.recovery = parse_recovery(*section, config.cluster.hosts);
  if (const auto section = logs_section(root)) config.log_level = parse_logs(*section);
  return config;
}

/// Runs `drive` against the cluster at run.head.
int drive_cluster(const AppMain::Drive& drive, Interruption& interruption, AppRun run,
                  const ProcessConfig& config, const std::string& name, std::size_t hosts,
                  const RevocableTarget<Cluster>& ear, const Secret& token,
                  const ConnectionSecurity& protection) {
  SystemOptions options;
  options.name = name;
  options.token = token;
  protection.apply(Address::parse(run.head), options);
  options.log = Log::standard_error(config.log_level);
  options.binary_hash = own_binary_sha256();
  options.binary_name = own_name();
  System system(options);
  ClusterOptions cluster_options;
  cluster_options.name = name;
  cluster_options.binary = run.binary;
  // Limits the threads of every kernel library to those that the run file grants.
  cluster_options.environment = {
      fmt::format("OMP_NUM_THREADS={}", config.cluster.device.threads),
      fmt::format("{}={}", kLogLevelVariable, to_string(config.log_level))};
  cluster_options.memory_cap = config.cluster.memory;
  for (const HostSpec& host : config.cluster.hosts)
    if (!host.interface.empty()) cluster_options.interfaces[host.name] = host.interface;
  cluster_options.on_event = [events = RunEvents(run.out)](const RunEvent& event) {
    events.add(event);
  };
  cluster_options.description = {machine_name(), std::filesystem::absolute(run.out).string()};
  cluster_options.description.restart_count = run.restart;
  cluster_options.description.previous_run_path = run.moved.string();
  cluster_options.description.restartable = !run.checked.empty() && config.recovery.restarts > 0;
  if (const auto colon = run.started_by.rfind(':'); colon != std::string::npos) {
    cluster_options.description.agent = run.started_by.substr(0, colon);
    cluster_options.description.launch = std::stoull(run.started_by.substr(colon + 1));
  }
  cluster_options.on_cancel = [&interruption, &system](bool now) {
    const Interruption::Cancelled cancelled = interruption.cancel(now);
    if (cancelled.ends_at_once)
      system.run_after(kAnswerLeavesWithin, [] { end_process(kInterrupted); });
    return cancelled.doing;
  };
  Cluster cluster(system, Address::parse(run.head), cluster_options);
  const RevocableTarget<Cluster>::Binding binding(ear, cluster);
  std::vector<std::string> names;
  if (!run.config.empty()) names = config.recovery.without_spares(config.cluster.hosts);
  // `weft run` has seen all hosts. A run that recovers starts with those that are left.
  if (!cluster_options.description.restartable)
    cluster.wait_for_hosts(names, names.empty() ? hosts : names.size(), kHostsWithin);
  interruption.doing("", OnInterrupt::kFinishes);
  CleanUpWatchdog limit(system, cluster, interruption);
  run.clean_up_begins = [&limit] { limit.begin(); };
  std::optional<Error> failure;
  try {
    const int status = drive(cluster, run);
    const bool stopped = status == kInterrupted || (status == 0 && interruption.requested());
    cluster.report_end({stopped       ? RunState::kInterrupted
                        : status == 0 ? RunState::kDone
                                      : RunState::kFailed,
                        status == 0 || stopped ? "" : fmt::format("exit status {}", status)});
    return status;
  } catch (const Error& error) {
    failure = error;
  }
  // The app may have seen a symptom before its cause arrived.
  const bool asked_for = failure->code() == ErrorCode::kCancelled && interruption.requested();
  const bool symptom = is_secondary_failure(*failure) && !asked_for;
  if (auto cause = symptom ? cluster.failure(kRootCauseTimeout) : std::nullopt)
    failure = std::move(cause);
  const bool stopped = exit_status_of(*failure, interruption.requested()) == kInterrupted;
  cluster.report_end(
      {stopped ? RunState::kInterrupted : RunState::kFailed, stopped ? "" : failure->message()});
  throw std::move(*failure);
}

int by_hand_usage(const std::string& program) {
  say(stdout,
      "usage: {0} [--head HOST:PORT [--token-file FILE] [--cert sha256:DIGITS | --insecure]] "
      "[--workers N] [--devices N] [--out DIR] "
      "[--config FILE [--set "
      "key=value]...]\n"
      "Without --head it starts a cluster of its own on this machine: --workers hosts (2) of "
      "--devices devices (1) each.\n",
      program);
  return 0;
}

}  // namespace

const ConfigDocument& AppRun::document() const {
  if (!document_)
    document_ = std::make_shared<const ConfigDocument>(
        ConfigDocument::load(config, overrides, config_folder));
  return *document_;
}

int exit_status_of(const Error& error, bool interrupted) {
  if (interrupted && error.code() == ErrorCode::kCancelled) return kInterrupted;
  return error.code() == ErrorCode::kInvalidConfig ? 2 : 1;
}

AppMain::AppMain(int argc, char** argv) : arguments_(argv + 1, argv + argc) {
  open_standard_descriptors();
  raise_descriptor_limit();
  report_crashes();
}

int AppMain::run(const Drive& drive) {
  try {
    return serve(drive);
  } catch (...) {
    // Before a role begins, an invalid argument is wrong usage.
    const Error error = current_error();
    const bool usage =
        error.code() == ErrorCode::kInvalidConfig || error.code() == ErrorCode::kInvalidArgument;
    // Messages about a file begin with its place.
    const bool placed = error.code() == ErrorCode::kInvalidConfig;
    const std::string who = placed ? "" : own_name() + ": ";
    say(stderr, "{}\n", wrapped_for_terminal(STDERR_FILENO, who + error.message()));
    return usage ? 2 : 1;
  }
}

int AppMain::serve(const Drive& drive) {
  if (const auto status = serve_cluster_role(arguments_)) return *status;
  const auto role = role_of(arguments_);
  if (!role) return serve_by_hand(drive);
  const RoleArguments arguments(arguments_,
                                {"json", "quiet", "schema", ConnectionSecurity::kInsecure});
  if (role == "keys") return exit_status_after_flush(own_name(), serve_keys(arguments));
  if (role == "device") {
    return serve_device(arguments, [this](System& system) {
      for (const auto& provide : provided_) provide(system);
    });
  }
  if (role == "check")
    return exit_status_after_flush(
        own_name(), serve_check(make_run(arguments), arguments.get_or("resolved-to", "")));
  if (role == "plan") {
    if (plan_) return exit_status_after_flush(own_name(), plan_(make_run(arguments)));
    throw_error(ErrorCode::kInvalidArgument, "this app has no plan to show");
  }
  if (role == "driver") return serve_driver(drive, arguments);
  throw_error(ErrorCode::kInvalidArgument,
              "--weft-role={}: expected driver, device, check, plan, keys, head or agent", *role);
}

int AppMain::serve_check(const AppRun& run, const std::string& resolved_to) {
  try {
    const int status = check_ ? check_(run) : 0;
    // The document knows which values are paths once all sections are read.
    if (status == 0 && !resolved_to.empty())
      write_child_report(resolved_to, run.document().resolved());
    return status;
  } catch (const Error& error) {
    if (!run.json || error.code() != ErrorCode::kInvalidConfig) throw;
    say(stdout, "{}", problems_json(run.config, problems_of(error, run.config, run.overrides)));
    return exit_status_of(error, false);
  }
}

int AppMain::serve_keys(const RoleArguments& arguments) {
  const ReadKeys shared = [](const ConfigDocument& document) {
    parse_run_header(document, program_directory());
  };
  std::vector<ConfigKey> keys = keys_read_by(read_keys_ ? read_keys_ : shared);
  if (arguments.has("schema")) {
    say(stdout, "{}", keys_schema(keys, fmt::format("a run file of Weft, app: {}", own_name())));
    return 0;
  }
  if (const std::string under = arguments.get_or("under", ""); !under.empty()) {
    std::vector<std::string> paths;
    for (const ConfigKey& key : keys) paths.push_back(key.path);
    std::erase_if(keys, [&](const ConfigKey& key) {
      return key.path != under && !key.path.starts_with(under + ".") &&
             !key.path.starts_with(under + "[");
    });
    if (keys.empty())
      throw_error(ErrorCode::kNotFound, "{} has no key '{}'{}", own_name(), under,
                  did_you_mean(under, paths));
  }
  const std::string text = arguments.has("json") ? keys_json(keys) : keys_text(keys);
  say(stdout, "{}", arguments.has("json") ? text : wrapped_for_terminal(STDOUT_FILENO, text, 4));
  return 0;
}

int AppMain::serve_driver(const Drive& drive, const RoleArguments& arguments) {
  const NonBlockingOutput output;
  Interruption interruption(Interruption::Parent::kWeftRun);
  AppRun run = make_run(arguments);
  connect(run, interruption);
  const Secret token = inherited_token(arguments);
  std::filesystem::create_directories(run.out / "logs");
  std::optional<Error> failure;
  try {
    const ProcessConfig config = process_config_of(run);
    const RevocableTarget<Cluster> nobody;  // unused: the head and agents have another parent
    const int status = drive_cluster(
        drive, interruption, run, config, arguments.get_or("name", "driver"),
        config.cluster.hosts.size(), nobody, token, ConnectionSecurity::of(arguments));
    return status == 0 && interruption.requested() ? kInterrupted : status;
  } catch (...) {
    failure = current_error();
  }
  const int status = exit_status_of(*failure, interruption.requested());
  if (status != kInterrupted)
    write_child_report(arguments.get_or("last-words", ""), failure->message());
  return status;
}

int AppMain::serve_by_hand(const Drive& drive) {
  const std::string program = own_name();
  const RoleArguments arguments(arguments_, {"json", "help", ConnectionSecurity::kInsecure});
  if (arguments.has("help")) return by_hand_usage(program);
  const NonBlockingOutput output;
  arguments.check_known({"head", "token-file", "cert", ConnectionSecurity::kInsecure, "workers",
                         "devices", "out", "config", "set", "json", "help"});
  Interruption interruption(Interruption::Parent::kNone);
  AppRun run = make_run(arguments);
  connect(run, interruption);
  if (run.out.empty()) run.out = std::filesystem::path("runs") / program;
  std::filesystem::create_directories(run.out / "logs");
  const ProcessConfig config = process_config_of(run);
  std::vector<HostSpec> hosts = config.cluster.hosts;
  if (run.config.empty()) {
    hosts.clear();
    const std::uint64_t workers = arguments.has("workers") ? arguments.number("workers") : 2;
    const std::uint32_t devices = arguments.has("devices") ? arguments.number("devices") : 1;
    for (std::uint64_t i = 0; i < workers; ++i)
      hosts.push_back({fmt::format("worker{}", i), devices});
  }
  std::optional<Error> failure;
  int status = 0;
  // receives the deaths of a local cluster's processes
  const RevocableTarget<Cluster> death_target;
  std::unique_ptr<ProcessLauncher> launcher;
  try {
    std::size_t expected = 1;
    const Secret token =
        run.head.empty() ? Secret::random()
                         : find_token(Address::parse(run.head), arguments.get_or("token-file", ""),
                                      internal::kConnectWithin);
    ConnectionSecurity protection;
    if (!run.head.empty())
      protection = find_protection(Address::parse(run.head), arguments.get_or("token-file", ""),
                                   arguments.get_or("cert", ""),
                                   arguments.has(ConnectionSecurity::kInsecure));
    if (arguments.has(ConnectionSecurity::kInsecure))
      warn_of_insecure(Log::standard_error(LogLevel::kWarning));
    if (run.head.empty()) {
      become_subreaper();
      launcher = make_launcher();
      const auto on_death = [death_target](const std::string& who, const ExitReport& evidence) {
        death_target.tell([&](Cluster& cluster) {
          if (who == "head") cluster.report_head_death(evidence);
          else cluster.report_host_death(who, evidence);
        });
      };
      LocalCluster::Options options{own_executable(), hosts,           run.out, token,
                                    on_death,         config.log_level};
      options.caps_devices = config.cluster.memory != 0;
      options.note = [](const std::string& text) { say(stderr, "{}\n", text); };
      options.gives_up = [&interruption] { return interruption.requested(); };
      const LocalCluster local(*launcher, std::move(options));
      run.head = to_string(local.head());
      expected = hosts.size();
    }
    status = drive_cluster(drive, interruption, run, config, program, expected, death_target, token,
                           protection);
  } catch (...) {
    failure = current_error();
  }
  if (launcher) {
    launcher->stop_all(internal::kStopGrace);
    reap_orphans(internal::kStopGrace);
  }
  if (!failure) return status == 0 && interruption.requested() ? kInterrupted : status;
  say(stderr, "{}\n",
      wrapped_for_terminal(STDERR_FILENO,
                           fmt::format("{} failed: {}", program, failure->message())));
  RunEvents(run.out).add({"failed", failure->message()});
  return exit_status_of(*failure, interruption.requested());
}

}  // namespace weft::actors
