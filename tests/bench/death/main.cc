// Times failure detection with real processes under `weft run`: from SIGKILL of a process to the
// error at a waiting caller, beside the end of file at a plain socket; and from SIGSTOP of a
// training's device or of an agent to the line in events.jsonl and to the end of the run. The
// baseline is the 10 s of silence after which a process counts as dead.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <iostream>

#include "tests/bench/death/chaos.h"
#include "tests/bench/death/endings.h"
#include "tests/bench/death/head_kills.h"
#include "tests/bench/death/recovery_times.h"
#include "tests/bench/death/silence.h"
#include "tests/support/killable_run.h"

namespace weft::test {
namespace {

struct Times {
  std::vector<double> ms;
  void add(std::int64_t nanoseconds) { ms.push_back(nanoseconds / 1e6); }
  std::string summary() {
    std::sort(ms.begin(), ms.end());
    return fmt::format("median {:7.1f} ms, worst {:7.1f} ms", ms[ms.size() / 2], ms.back());
  }
  double median() const { return ms[ms.size() / 2]; }
};

/// Kills a child with `bytes` of resident memory. Returns the nanoseconds until its socket reports
/// end of file.
std::int64_t time_bare_eof(std::size_t bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("socketpair");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    void* memory = ::mmap(nullptr, bytes + 1, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    [[maybe_unused]] const auto sent = ::write(ends[1], memory, 1);
    while (true) ::pause();
  }
  ::close(ends[1]);
  char byte = 0;
  [[maybe_unused]] auto got = ::read(ends[0], &byte, 1);
  const std::int64_t killed = monotonic_ns();
  ::kill(child, SIGKILL);
  got = ::read(ends[0], &byte, 1);
  const std::int64_t told = monotonic_ns();
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return told - killed;
}

/// Returns SIGTERM for "TERM" or "term".
int signal_named(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGKILL, SIGSEGV, SIGQUIT, SIGABRT})
    if (name == ::sigabbrev_np(signal)) return signal;
  throw std::runtime_error("no signal is called '" + name + "'");
}

int run(int argc, char** argv) {
  int repeats = 11;
  int hosts = 2;
  int stops = 3;
  int heads = 100;
  int head_steps = 400;
  std::vector<std::int64_t> resident = {0, 1024};
  CLI::App app("From SIGKILL to the error at the waiting caller");
  app.add_option("--repeats", repeats, "Kills of each kind")->capture_default_str();
  app.add_option("--stops", stops, "SIGSTOPs of each kind; some 12 s each")->capture_default_str();
  app.add_option("--hosts", hosts, "Agents, with one device process each")->capture_default_str();
  app.add_option("--resident", resident, "MiB that a device process holds")->capture_default_str();
  app.add_option("--heads", heads, "SIGKILLs of the head under trainings, beside two busy loops")
      ->capture_default_str();
  app.add_option("--head-steps", head_steps, "Steps of each of these")->capture_default_str();
  bool chaos = false;
  ChaosOptions chaotic;
  app.add_flag("--chaos", chaos,
               "Only this: kills, stops and cuts at random in trainings that recover");
  app.add_option("--runs", chaotic.runs, "Trainings of --chaos")->capture_default_str();
  app.add_option("--seed", chaotic.seed, "Of the first of them")->capture_default_str();
  app.add_option("--steps", chaotic.steps, "Of each")->capture_default_str();
  app.add_option("--clusters", chaotic.clusters, "Who starts the processes: hand, local, hosts")
      ->delimiter(',')
      ->check(CLI::IsMember({"hand", "local", "hosts"}))
      ->capture_default_str();
  std::string trouble = "none";
  std::vector<std::string> signals, victims;
  app.add_flag("--starting", chaotic.kinds.starting,
               "With --chaos: one agent dies while the meshes are being started");
  app.add_option("--trouble", trouble, "With --chaos: state of the machine meanwhile")
      ->check(CLI::IsMember({"none", "disk", "fsync", "cut", "stdout"}))
      ->capture_default_str();
  app.add_option("--signals", signals, "Of --chaos (KILL) and --endings (TERM,INT,HUP)")
      ->delimiter(',');
  app.add_option("--victims", victims,
                 "With --chaos: signals to these alone: device, agent, head, driver")
      ->delimiter(',');
  bool ending = false;
  EndingOptions endings;
  app.add_flag("--endings", ending, "Only this: signals that end a training with a checkpoint");
  app.add_option("--times", endings.times, "Of each signal and receiver of --endings")
      ->capture_default_str();
  app.add_option("--receivers", endings.receivers, "Of --endings: all, driver, run")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "driver", "run"}));
  bool device = false, silence = false, calm = false;
  RecoveryTimes recovery;
  int silences = 5, minutes = 10, loops = 4;
  app.add_flag(
      "--device", device,
      "Only this: from SIGKILL of a device, an agent, the driver to the first step repeated, "
      "on the quickstart; what copies of the state cost");
  app.add_option("--kills", recovery.repeats, "Of each kind")->capture_default_str();
  app.add_option("--rounds", recovery.rounds, "Trainings with copies, and without")
      ->capture_default_str();
  app.add_flag("--devices-only", recovery.devices_only, "Neither agents and drivers nor copies");
  app.add_flag("--json", recovery.json, "The times of --device, on one line");
  app.add_flag("--silence", silence,
               "Only this: SIGSTOP of an agent, until its host is suspect, away");
  app.add_option("--silences", silences, "How often")->capture_default_str();
  app.add_flag("--calm", calm, "Only this: how many are told dead in a training where nobody dies");
  app.add_option("--minutes", minutes, "It takes so long")->capture_default_str();
  app.add_option("--loops", loops, "Busy ones beside it")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (device) return time_recoveries(recovery) == 0 ? 0 : 1;
  if (silence) return time_silence(silences) == 0 ? 0 : 1;
  if (calm) return count_false_deaths(minutes, loops) == 0 ? 0 : 1;
  chaotic.trouble = trouble_named(trouble);
  for (const std::string& name : victims) chaotic.kinds.victims.push_back(role_named(name));
  if (!signals.empty()) {
    endings.signals.clear();
    for (const std::string& name : signals) endings.signals.push_back(signal_named(name));
    chaotic.kinds.signals = endings.signals;
  }
  endings.seed = chaotic.seed;
  if (ending) return count_bad_endings(endings) == 0 ? 0 : 1;
  if (chaos) return cause_chaos(chaotic) == 0 ? 0 : 1;

  int failures = 0;
  const auto measure = [&](std::int64_t mib, const std::function<pid_t(KillableRun&)>& victim) {
    Times times;
    for (int i = 0; i < repeats; ++i) {
      KillableRun run("bench_death", hosts, mib);
      const auto time = run.kill_and_time(victim(run));
      if (time) times.add(*time);
      const bool ended = run.run().wait() == 1 && run.processes().none_left();
      if (!time || !ended) ++failures;
    }
    return times;
  };
  for (const std::int64_t mib : resident) {
    Times eof;
    for (int i = 0; i < repeats; ++i) eof.add(time_bare_eof(static_cast<std::size_t>(mib) << 20));
    fmt::print("end of file of a plain socket, {:5} MiB resident  {}\n", mib, eof.summary());
    Times told = measure(mib, [](KillableRun& run) { return run.device(0); });
    if (told.ms.empty()) continue;
    fmt::print("device process killed,         {:5} MiB resident  {}  ({:.2f}x of end of file)\n",
               mib, told.summary(), told.median() / eof.median());
  }
  Times agent = measure(0, [](KillableRun& run) { return run.agent(0); });
  if (!agent.ms.empty())
    fmt::print("agent killed                                       {}\n", agent.summary());
  const auto stop = [&](const std::string& what, KillableRun::Order order,
                        const std::function<pid_t(KillableRun&)>& victim) {
    Times told, ended;
    for (int i = 0; i < stops; ++i) {
      KillableRun run("bench_stop", order);
      const std::int64_t stopped = monotonic_ns();
      ::kill(victim(run), SIGSTOP);
      const bool heard =
          eventually([&] { return !run.events().empty(); }, std::chrono::seconds(30));
      if (heard) told.add(monotonic_ns() - stopped);
      const bool over = run.run().wait() == 1;
      if (over) ended.add(monotonic_ns() - stopped);
      if (!heard || !over || !run.processes().none_left()) ++failures;
    }
    if (told.ms.empty() || ended.ms.empty()) return;
    fmt::print("{:<40} told   {}  ({:.2f}x of the 10 s of silence)\n", what, told.summary(),
               told.median() / 10'000);
    fmt::print("{:<40} ended  {}\n", "", ended.summary());
  };
  using Order = KillableRun::Order;
  stop("device of the first mesh stopped", Order::kFrontFirst,
       [](KillableRun& run) { return run.device_on(0); });
  stop("device of the second mesh stopped", Order::kFrontFirst,
       [](KillableRun& run) { return run.device_on(1); });
  stop("agent stopped", Order::kFrontFirst, [](KillableRun& run) { return run.agent(1); });
  if (heads > 0) failures += kill_heads(heads, head_steps);
  if (failures != 0) fmt::print("{} runs did not tell, or did not end as they should\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  try {
    return weft::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
