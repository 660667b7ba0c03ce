#include "tests/bench/death/chaos.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>

#include "apps/test_cluster/test_hosts.h"
#include "tests/bench/death/roster.h"
#include "tests/bench/death/run_records.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using Ms = std::chrono::milliseconds;

constexpr int kWorkers = 5;     // the last is the spare
constexpr int kDriverHost = 5;  // of those made of namespaces: head and driver
constexpr auto kRunEndsWithin = std::chrono::seconds(240);
constexpr auto kTick = Ms(20);

const char* const kChaoticRun = R"(
name: chaos
app: gpt
seed: 1
cluster:
  launcher: local
  hosts: [{name: worker0}, {name: worker1}, {name: worker2}, {name: worker3}, {name: worker4}]
meshes:
  front: {hosts: [worker0, worker1], shape: {data: 1, tensor: 2}}
  back: {hosts: [worker2, worker3], shape: {data: 2, tensor: 1}}
sharding: {batch: data, heads: tensor, mlp: tensor}
pipeline:
  stages: [{mesh: front, layers: 2}, {mesh: back, layers: 2}]
  schedule: eager-1f1b
  microbatches: 4
training:
  batch: 16
  learning_rate: 3e-3
  warmup_steps: 20
  clip_norm: 1.0
  validate_every: 40
  validation_batches: 1
checkpoint: {every: 25, keep: 2}
recovery: {restarts: 100, spares: [worker4], if_too_few: wait}
model: {layers: 4, width: 32, heads: 4, sequence: 16}
data: {text: kjv, tokenizer: bpe, vocabulary: 1024}
)";

enum class Way { kKill, kStopBriefly, kStopLong, kCut };

/// One thing that somebody does to a run. Drawn before it, so that a seed means the same blows.
struct Blow {
  Ms after{};  ///< The blow before it.
  Roster::Role victim = Roster::Role::kDevice;
  Way way = Way::kKill;
  unsigned which = 0;  ///< Of those that live then, or host.
  Ms lasts{};          ///< Of stops and cuts.
};

/// Whom an operator starts again, and when.
struct Operator {
  Ms after{};
  bool never = false;
};

std::string describe(const Blow& blow) {
  switch (blow.way) {
    case Way::kKill: return fmt::format("{} killed", name_of(blow.victim));
    case Way::kStopBriefly: return fmt::format("{} stopped briefly", name_of(blow.victim));
    case Way::kStopLong: return fmt::format("{} stopped for long", name_of(blow.victim));
    case Way::kCut:
      return blow.lasts > kRunEndsWithin ? "host cut off for ever"
                                         : fmt::format("host cut off for {}", blow.lasts);
  }
  return "?";
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  bool one_in(int n) { return upto(n - 1) == 0; }
  Ms ms(int least, int most) { return Ms(least + upto(most - least)); }

  std::vector<Blow> blows(const std::string& cluster) {
    std::vector<Blow> blows;
    const int count = 1 + upto(7);
    bool long_one = false;  // such take more than ten seconds
    for (int i = 0; i < count; ++i) {
      Blow blow;
      // At once, in the recovery from the one before it, or in steps after that.
      const int pace = upto(5);
      blow.after = i == 0 ? ms(0, 3000) : pace == 0 ? Ms(0) : pace < 3 ? ms(0, 400) : ms(0, 2500);
      blow.which = static_cast<unsigned>(upto(1000));
      const int who = upto(9);
      blow.victim = who < 5   ? Roster::Role::kDevice
                    : who < 7 ? Roster::Role::kAgent
                    : who < 9 ? Roster::Role::kHead
                              : Roster::Role::kDriver;
      const int way = upto(9);
      if (cluster == "hosts" && way < 3) {
        blow.way = Way::kCut;
        const int lasts = upto(3);
        blow.lasts = lasts == 0   ? Ms(1000)
                     : lasts == 1 ? Ms(5000)
                     : lasts == 2 ? Ms(15'000)
                                  : Ms(kRunEndsWithin * 2);
        if (long_one && lasts > 1) blow.lasts = Ms(1000);
        long_one = long_one || lasts > 1;
      } else if (way == 3) {
        blow.way = Way::kStopBriefly;
        blow.lasts = ms(100, 2500);
      } else if (way == 4 && !long_one) {
        blow.way = Way::kStopLong;
        blow.lasts = ms(11'000, 20'000);
        long_one = true;
      }
      blows.push_back(blow);
    }
    return blows;
  }
  Operator next_operator() { return {ms(0, 1500), one_in(5)}; }

 private:
  std::mt19937_64 random_;
};

struct Outcome {
  std::vector<std::string> wrong;  ///< Empty: as it should be.
  std::map<std::string, int> blows;
  int recoveries = 0, driver_restarts = 0, hosts_lost = 0;
  double seconds = 0;
};

/// A cluster and a run on it.
class ChaoticRun {
 public:
  ChaoticRun(const std::string& cluster, std::uint64_t seed, int steps)
      : processes_("chaos"),
        roster_(processes_),
        cluster_(cluster),
        draw_(seed),
        blows_(draw_.blows(cluster)),
        steps_(steps),
        begun_(monotonic_ns()) {
    processes_.write("run.yaml", kChaoticRun);
    if (cluster_ == "hosts")
      hosts_.emplace(apps::TestHosts::Options{RealProcesses::program("weft-hosts"),
                                              fmt::format("chaos-{}", ::getpid()), kWorkers + 1,
                                              1});
  }

  ~ChaoticRun() {
    for (const pid_t pid : processes_.left()) ::kill(pid, SIGKILL);  // before the hosts
  }
  ChaoticRun(const ChaoticRun&) = delete;
  ChaoticRun& operator=(const ChaoticRun&) = delete;

  Outcome go(const std::vector<std::string>& expected) {
    if (cluster_ != "local") start_cluster();
    start_run();
    Outcome outcome;
    begun_ = monotonic_ns();
    Ms due = blows_.front().after;
    std::size_t next = 0;
    while (run_->wait(Ms(0)) < 0) {
      if (now() > kRunEndsWithin) {
        outcome.wrong.push_back(fmt::format("it has not ended after {} s", now().count() / 1000));
        write_down_stacks();
        break;
      }
      roster_.look();
      act_as_operator(outcome);
      while (next < blows_.size() && due <= now()) {
        strike(blows_[next], outcome);
        if (++next < blows_.size()) due = now() + blows_[next].after;
      }
      ::usleep(std::chrono::microseconds(kTick).count());
    }
    outcome.seconds = now().count() / 1000.0;
    look_at_end(expected, outcome);
    return outcome;
  }
  const std::filesystem::path& keep() {
    processes_.write("blows.txt", diary_);
    processes_.keep();
    return processes_.directory();
  }

 private:
  struct Seat {
    std::string name;
    RealProcesses::Process* process = nullptr;
    std::optional<Ms> start_at;
    bool lost = false;
  };
  struct Later {
    Ms at;
    std::function<void()> act;
  };

  Ms now() const { return Ms((monotonic_ns() - begun_) / 1'000'000); }
  void note(const std::string& text) {
    diary_ += fmt::format("{:8.3f} s  {}\n", now().count() / 1000.0, text);
  }

  /// On a host of its own where there are such.
  RealProcesses::Process& start_on(int host, std::vector<std::string> words) {
    if (!hosts_) return processes_.start("weft", words);
    words.insert(words.begin(), RealProcesses::program("weft").string());
    std::vector<std::string> command = hosts_->command_on(host, words);
    return processes_.start("weft-hosts", {command.begin() + 1, command.end()});
  }
  void start_head(const std::string& listen) {
    head_.process = &start_on(kDriverHost, {"head", "--listen", listen, "--state", "state"});
  }
  void start_agent(int host) {
    agents_[host].process =
        &start_on(host, {"join", address_, "--name", agents_[host].name, "--token-file",
                         (processes_.directory() / "state/token").string()});
  }
  void start_cluster() {
    head_.name = "head";
    start_head(hosts_ ? hosts_->address(kDriverHost) + ":7077" : "127.0.0.1:0");
    address_ = head_.process->word_after("Weft's head listens on ");
    for (int host = 0; host < kWorkers; ++host) {
      agents_.push_back({fmt::format("worker{}", host), nullptr, {}, false});
      start_agent(host);
    }
    for (const Seat& agent : agents_) agent.process->word_after("has joined cluster");
  }
  void start_run() {
    std::vector<std::string> words = {"run", "run.yaml", "--out",
                                      "out", "--set",    fmt::format("training.steps={}", steps_)};
    if (cluster_ != "local")
      words.insert(words.end(),
                   {"--head", address_, "--set", "cluster.launcher=manual", "--token-file",
                    (processes_.directory() / "state/token").string()});
    run_ = &start_on(kDriverHost, words);
    // What dies before the cluster is there ends the run, and should.
    if (cluster_ == "local") run_->word_after("cluster ");
  }

  void act_as_operator(Outcome& outcome) {
    for (auto later = later_.begin(); later != later_.end();) {
      if (later->at > now()) {
        ++later;
        continue;
      }
      const auto act = later->act;
      later = later_.erase(later);
      act();
    }
    if (cluster_ == "local") return;
    tend(
        head_, [this] { start_head(address_); }, outcome);
    for (int host = 0; host < kWorkers; ++host)
      tend(
          agents_[host], [this, host] { start_agent(host); }, outcome);
  }
  void tend(Seat& seat, const std::function<void()>& start, Outcome& outcome) {
    if (seat.lost) return;
    if (!seat.start_at && seat.process->wait(Ms(0)) >= 0) {
      Operator how = draw_.next_operator();
      const bool is_head = &seat == &head_;
      // A spare for one.
      how.never = how.never && !is_head && outcome.hosts_lost == 0;
      note(fmt::format("{} has ended with {}{}", seat.name, seat.process->wait(),
                       how.never ? ", and stays away" : ""));
      if (how.never) {
        seat.lost = true;
        ++outcome.hosts_lost;
        return;
      }
      seat.start_at = now() + (is_head ? how.after / 3 : how.after);
    }
    if (!seat.start_at || *seat.start_at > now()) return;
    seat.start_at.reset();
    note(seat.name + " starts");
    start();
  }

  void strike(const Blow& blow, Outcome& outcome) {
    if (blow.way == Way::kCut) return cut(blow, outcome);
    // By what the kernel says now: the last look is some milliseconds old.
    roster_.look();
    const auto candidates = roster_.living(blow.victim);
    if (candidates.empty()) return note(fmt::format("no {} is there", name_of(blow.victim)));
    const Roster::Member victim = candidates[blow.which % candidates.size()];
    const std::string who = fmt::format("{} {}{} (pid {})", name_of(victim.role), victim.host,
                                        victim.label.empty() ? "" : " " + victim.label, victim.pid);
    ++outcome.blows[describe(blow)];
    if (blow.way == Way::kKill) {
      note(who + " is killed");
      const auto stat = actors::read_proc_stat(victim.pid);
      ::kill(victim.pid, SIGKILL);
      if (stat) wake_parent(stat->parent);
      return;
    }
    note(fmt::format("{} is stopped for {}", who, blow.lasts));
    ::kill(victim.pid, SIGSTOP);
    later_.push_back({now() + blow.lasts, [this, pid = victim.pid, who] {
                        note(who + " goes on");
                        const auto stat = actors::read_proc_stat(pid);
                        ::kill(pid, SIGCONT);
                        if (stat) wake_parent(stat->parent);
                      }});
  }
  /// The nsenter of a process on such a host stops with it, and does not go on by itself.
  void wake_parent(pid_t parent) const {
    if (hosts_) ::kill(parent, SIGCONT);
  }
  void cut(const Blow& blow, Outcome& outcome) {
    const bool for_ever = blow.lasts > kRunEndsWithin;
    const int host = static_cast<int>(blow.which % (for_ever ? kWorkers : kWorkers + 1));
    if (host < kWorkers && (cut_.contains(host) || agents_[host].lost)) return;
    if (for_ever && outcome.hosts_lost > 0) return;
    ++outcome.blows[describe(blow)];
    note(fmt::format("host{} is cut off for {}", host, blow.lasts));
    hosts_->cut(host);
    cut_.insert(host);
    if (for_ever) {
      // Its agent gives up some day, and nobody starts it there.
      agents_[host].lost = true;
      ++outcome.hosts_lost;
      return;
    }
    later_.push_back({now() + blow.lasts, [this, host] {
                        note(fmt::format("host{} is connected again", host));
                        hosts_->mend(host);
                        cut_.erase(host);
                      }});
  }

  void look_at_end(const std::vector<std::string>& expected, Outcome& outcome) {
    const int status = run_->wait(Ms(0));
    note(fmt::format("the run ends with {}", status));
    if (status != 0) outcome.wrong.push_back(fmt::format("status {}", status));
    const auto out = processes_.directory() / "out";
    const auto losses = losses_of(out);
    if (losses != expected) {
      const auto differ = std::ranges::mismatch(losses, expected);
      outcome.wrong.push_back(
          differ.in1 == losses.end()
              ? fmt::format("{} of {} steps", losses.size(), expected.size())
              : fmt::format("line {} of metrics.jsonl is not as undisturbed: {}",
                            1 + (differ.in1 - losses.begin()), *differ.in1));
    }
    outcome.recoveries = static_cast<int>(events_of(out, "recovered").size());
    outcome.driver_restarts = static_cast<int>(events_of(out, "driver restarted").size());
    for (const std::string& twofold : roster_.twofold())
      outcome.wrong.push_back("a device with two processes: " + twofold);
    for (const Later& later : std::exchange(later_, {})) later.act();
    if (cluster_ == "local") {
      look_for_left(outcome);
      return;
    }
    const bool devices_end = eventually([&] {
      act_as_operator(outcome);
      roster_.look();
      return roster_.living(Roster::Role::kDevice).empty();
    });
    if (!devices_end && cut_.empty()) outcome.wrong.push_back("device processes are left");
    std::vector<RealProcesses::Process*> all = {head_.process};
    for (const Seat& agent : agents_) all.push_back(agent.process);
    for (const RealProcesses::Process* process : all) ::kill(process->pid, SIGTERM);
    if (!cut_.empty()) return;  // There, nobody hears of it.
    look_for_left(outcome);
  }

  void look_for_left(Outcome& outcome) {
    if (processes_.none_left()) return;
    std::vector<std::string> left;
    for (const pid_t pid : processes_.left()) {
      std::string command = read_file(fmt::format("/proc/{}/cmdline", pid)).substr(0, 150);
      std::ranges::replace(command, '\0', ' ');
      left.push_back(fmt::format("{} ({})", pid, command));
    }
    outcome.wrong.push_back(fmt::format("processes are left: {}", fmt::join(left, ", ")));
    write_down_stacks();
  }

  void write_down_stacks() {
    for (const pid_t pid : processes_.left()) {
      const auto to = processes_.directory() / fmt::format("stacks.{}.txt", pid);
      [[maybe_unused]] const int ignored = std::system(
          fmt::format("tr '\\0' ' ' < /proc/{0}/cmdline > {1}; timeout 30 gdb -p {0} -batch -ex "
                      "'thread apply all bt' >> {1} 2>&1",
                      pid, to.string())
              .c_str());
    }
  }

  RealProcesses processes_;
  Roster roster_;
  const std::string cluster_;
  Draw draw_;
  const std::vector<Blow> blows_;
  const int steps_;
  std::int64_t begun_;
  std::optional<apps::TestHosts> hosts_;
  std::string address_;
  Seat head_;
  std::vector<Seat> agents_;
  RealProcesses::Process* run_ = nullptr;
  std::vector<Later> later_;
  std::set<int> cut_;
  std::string diary_;
};

std::vector<std::string> losses_undisturbed(int steps) {
  RealProcesses processes("chaos_undisturbed");
  processes.write("run.yaml", kChaoticRun);
  auto& run = processes.run("weft", {"run", "run.yaml", "--out", "out", "--set",
                                     fmt::format("training.steps={}", steps)});
  if (run.wait() != 0) throw std::runtime_error("the undisturbed run failed: " + run.text());
  return losses_of(processes.directory() / "out");
}

}  // namespace

int cause_chaos(const ChaosOptions& options) {
  const auto expected = losses_undisturbed(options.steps);
  struct Sum {
    int runs = 0, good = 0, recoveries = 0, driver_restarts = 0, hosts_lost = 0;
    std::map<std::string, int> blows;
    double seconds = 0;
  };
  std::map<std::string, Sum> sums;
  std::vector<std::string> clusters = options.clusters;
  const std::string refusal = apps::TestHosts::refusal(RealProcesses::program("weft-hosts"));
  if (!refusal.empty() && std::erase(clusters, "hosts") > 0)
    fmt::print("without cuts: {}\n", refusal);
  int failures = 0;
  for (int i = 0; i < options.runs && !clusters.empty(); ++i) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
    const std::string& cluster = clusters[seed % clusters.size()];
    ChaoticRun run(cluster, seed, options.steps);
    const Outcome outcome = run.go(expected);
    Sum& sum = sums[cluster];
    ++sum.runs;
    sum.recoveries += outcome.recoveries;
    sum.driver_restarts += outcome.driver_restarts;
    sum.hosts_lost += outcome.hosts_lost;
    sum.seconds += outcome.seconds;
    int blows = 0;
    for (const auto& [blow, count] : outcome.blows) {
      sum.blows[blow] += count;
      blows += count;
    }
    if (outcome.wrong.empty()) {
      ++sum.good;
      fmt::print("seed {} ({}): as undisturbed after {} blows, {} recoveries, {:.1f} s\n", seed,
                 cluster, blows, outcome.recoveries, outcome.seconds);
      std::fflush(stdout);
      continue;
    }
    ++failures;
    fmt::print(
        "seed {} ({}): {}\n  {}; again: build/bin/death --chaos --clusters {} --runs 1 --seed {}\n",
        seed, cluster, fmt::join(outcome.wrong, "; "), run.keep().string(), cluster, seed);
    std::fflush(stdout);
  }
  fmt::print("{:<8} {:>5} {:>15} {:>11} {:>15} {:>10} {:>12}\n", "cluster", "runs",
             "as undisturbed", "recoveries", "driver restarts", "hosts lost", "s per run");
  std::map<std::string, int> blows;
  for (const auto& [cluster, sum] : sums) {
    fmt::print("{:<8} {:>5} {:>15} {:>11} {:>15} {:>10} {:>12.1f}\n", cluster, sum.runs, sum.good,
               sum.recoveries, sum.driver_restarts, sum.hosts_lost, sum.seconds / sum.runs);
    for (const auto& [blow, count] : sum.blows) blows[blow] += count;
  }
  for (const auto& [blow, count] : blows) fmt::print("{:>6} x {}\n", count, blow);
  return failures;
}

}  // namespace weft::test
