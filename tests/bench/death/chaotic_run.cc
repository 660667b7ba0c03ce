#include "tests/bench/death/chaotic_run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/bench/death/run_records.h"

namespace weft::test {
namespace {

constexpr int kWorkers = 5;     // the last one is the spare
constexpr int kDriverHost = 5;  // host of the head and the driver, if hosts are made of namespaces
constexpr auto kTick = std::chrono::milliseconds(20);
constexpr auto kTroubleOutlastsBlows = std::chrono::milliseconds(3000);
constexpr auto kCutLasts = std::chrono::milliseconds(4000);

}  // namespace

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

ChaoticRun::ChaoticRun(const ChaoticRunOptions& options)
    : processes_("chaos"),
      roster_(processes_),
      options_(options),
      draw_(options.seed),
      blows_(draw_.blows(options.kinds, options.cluster == "hosts")),
      begun_(monotonic_ns()),
      trouble_(options.trouble, processes_) {
  processes_.write("run.yaml", kChaoticRun);
  if (options_.cluster == "hosts")
    hosts_.emplace(apps::TestHosts::Options{RealProcesses::program("weft-hosts"),
                                            fmt::format("chaos-{}", ::getpid()), kWorkers + 1, 1});
}

ChaoticRun::~ChaoticRun() {
  for (const pid_t pid : processes_.left()) ::kill(pid, SIGKILL);  // before hosts_ is destroyed
}

Outcome ChaoticRun::go(const std::vector<std::string>& expected) {
  if (options_.cluster != "local") start_cluster();
  start_run();
  if (options_.kinds.starting) eventually([this] { return is_alive(Roster::Role::kDevice); });
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
      if (next == 0) trouble_.begin();
      strike(blows_[next], outcome);
      if (++next < blows_.size()) due = now() + blows_[next].after;
      else later_.push_back({now() + kTroubleOutlastsBlows, [this] { trouble_.end(); }});
    }
    ::usleep(std::chrono::microseconds(kTick).count());
  }
  outcome.seconds = now().count() / 1000.0;
  look_at_end(expected, outcome);
  return outcome;
}

const std::filesystem::path& ChaoticRun::keep() {
  processes_.write("blows.txt", diary_);
  processes_.keep();
  return processes_.directory();
}

ChaoticRun::Ms ChaoticRun::now() const { return Ms((monotonic_ns() - begun_) / 1'000'000); }

void ChaoticRun::note(const std::string& text) {
  diary_ += fmt::format("{:8.3f} s  {}\n", now().count() / 1000.0, text);
}

RealProcesses::Process& ChaoticRun::start_on(int host, const std::vector<std::string>& words,
                                             const std::vector<std::string>& before) {
  std::vector<std::string> command = before;
  const auto append = [&](const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
  };
  append(trouble_.before_commands());
  append({RealProcesses::program("weft").string()});
  append(words);
  if (hosts_) command = hosts_->command_on(host, command);
  return processes_.start(command.front(), {command.begin() + 1, command.end()});
}

void ChaoticRun::start_head(const std::string& listen) {
  head_.process = &start_on(kDriverHost, {"head", "--listen", listen, "--state", "state"});
}

void ChaoticRun::start_agent(int host) {
  agents_[host].process =
      &start_on(host, {"join", address_, "--name", agents_[host].name, "--token-file",
                       (processes_.directory() / "state/token").string()});
}

void ChaoticRun::start_cluster() {
  head_.name = "head";
  start_head(hosts_ ? hosts_->address(kDriverHost) + ":7077" : "127.0.0.1:0");
  address_ = head_.process->word_after("Weft's head listens on ");
  for (int host = 0; host < kWorkers; ++host) {
    agents_.push_back({fmt::format("worker{}", host), nullptr, {}, false});
    start_agent(host);
  }
  for (const Seat& agent : agents_) agent.process->word_after("has joined cluster");
}

void ChaoticRun::start_run(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run",   "run.yaml",
                                    "--out", trouble_.out().string(),
                                    "--set", fmt::format("training.steps={}", options_.steps)};
  if (options_.cluster != "local")
    words.insert(words.end(), {"--head", address_, "--set", "cluster.launcher=manual",
                               "--token-file", (processes_.directory() / "state/token").string()});
  words.insert(words.end(), more.begin(), more.end());
  run_ = &start_on(kDriverHost, words, trouble_.before_run());
  // Blows start when the driver is alive, as a death during start-up rightly ends the run.
  if (options_.cluster != "local") return;
  eventually([this] { return is_alive(Roster::Role::kDriver); });
}

bool ChaoticRun::is_alive(Roster::Role role) {
  roster_.look();
  return !roster_.living(role).empty() || run_->wait(Ms(0)) >= 0;
}

void ChaoticRun::act_as_operator(Outcome& outcome) {
  for (auto later = later_.begin(); later != later_.end();) {
    if (later->at > now()) {
      ++later;
      continue;
    }
    const auto act = later->act;
    later = later_.erase(later);
    act();
  }
  if (options_.cluster == "local") return;
  tend(
      head_, [this] { start_head(address_); }, outcome);
  for (int host = 0; host < kWorkers; ++host)
    tend(
        agents_[host], [this, host] { start_agent(host); }, outcome);
}

void ChaoticRun::tend(Seat& seat, const std::function<void()>& start, Outcome& outcome) {
  if (seat.lost) return;
  if (!seat.start_at && seat.process->wait(Ms(0)) >= 0) {
    Operator how = draw_.next_operator();
    const bool is_head = &seat == &head_;
    // The run has one spare host.
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

void ChaoticRun::strike(const Blow& blow, Outcome& outcome) {
  if (blow.way == Way::kCut) return cut(blow, outcome);
  if (trouble_.kind() == Trouble::Kind::kCutLink && hosts_ && cut_.empty()) {
    Blow around = blow;
    around.lasts = kCutLasts;
    cut(around, outcome);
  }
  // Refresh, as the last look is some milliseconds old.
  roster_.look();
  const auto candidates = roster_.living(blow.victim);
  if (candidates.empty()) return note(fmt::format("no {} is there", name_of(blow.victim)));
  const Roster::Member victim = candidates[blow.which % candidates.size()];
  const std::string who = fmt::format("{} {}{} (pid {})", name_of(victim.role), victim.host,
                                      victim.label.empty() ? "" : " " + victim.label, victim.pid);
  ++outcome.blows[describe(blow)];
  if (blow.way == Way::kSignal) {
    note(fmt::format("{} gets SIG{}", who, ::sigabbrev_np(blow.signal)));
    const auto stat = actors::read_proc_stat(victim.pid);
    ::kill(victim.pid, blow.signal);
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

void ChaoticRun::wake_parent(pid_t parent) const {
  if (hosts_) ::kill(parent, SIGCONT);
}

void ChaoticRun::cut(const Blow& blow, Outcome& outcome) {
  const bool for_ever = blow.lasts > kRunEndsWithin;
  const int host = static_cast<int>(blow.which % (for_ever ? kWorkers : kWorkers + 1));
  if (host < kWorkers && (cut_.contains(host) || agents_[host].lost)) return;
  if (for_ever && outcome.hosts_lost > 0) return;
  ++outcome.blows[describe(blow)];
  note(fmt::format("host{} is cut off for {}", host, blow.lasts));
  hosts_->disconnect_host(host);
  cut_.insert(host);
  if (for_ever) {
    // The agent gives up eventually and is not restarted there.
    agents_[host].lost = true;
    ++outcome.hosts_lost;
    return;
  }
  later_.push_back({now() + blow.lasts, [this, host] {
                      note(fmt::format("host{} is connected again", host));
                      hosts_->reconnect_host(host);
                      cut_.erase(host);
                    }});
}

bool ChaoticRun::ended_by_equal_crashes(const std::string& text) const {
  const auto crashes = std::ranges::count_if(
      blows_, [](const Blow& blow) { return blow.way == Way::kSignal && blow.signal == SIGSEGV; });
  return crashes >= 2 && text.find("The same failure happened twice") != std::string::npos;
}

void ChaoticRun::resume(Outcome& outcome) {
  trouble_.end();
  const std::string out = trouble_.out().string();
  if (!std::filesystem::exists(trouble_.out() / "checkpoints/latest")) {
    std::filesystem::remove_all(out);
    start_run();
  } else {
    start_run({"--set", "checkpoint.resume=" + out});
  }
  note("the run is resumed");
  const bool ended = eventually([&] {
    act_as_operator(outcome);
    return run_->wait(Ms(0)) >= 0;
  });
  if (!ended || run_->wait(Ms(0)) != 0)
    outcome.wrong.push_back(
        fmt::format("resumed, it {}", ended ? "fails again" : "does not come to an end"));
}

void ChaoticRun::look_at_end(const std::vector<std::string>& expected, Outcome& outcome) {
  const int status = run_->wait(Ms(0));
  note(fmt::format("the run ends with {}", status));
  const std::filesystem::path& out = trouble_.out();
  const std::string text = run_->text();
  if (status == 1 && (trouble_.explains(text) || ended_by_equal_crashes(text))) resume(outcome);
  else if (status != 0) outcome.wrong.push_back(fmt::format("status {}", status));
  const auto losses = losses_of(out);
  if (losses != expected) {
    const auto differ = std::ranges::mismatch(losses, expected);
    outcome.wrong.push_back(differ.in1 == losses.end()
                                ? fmt::format("{} of {} steps", losses.size(), expected.size())
                                : fmt::format("line {} of metrics.jsonl is not as undisturbed: {}",
                                              1 + (differ.in1 - losses.begin()), *differ.in1));
  }
  outcome.recoveries = static_cast<int>(events_of(out, "recovered").size());
  outcome.driver_restarts = static_cast<int>(events_of(out, "driver restarted").size());
  for (const std::string& twofold : roster_.twofold())
    outcome.wrong.push_back("a device with two processes: " + twofold);
  for (const Later& later : std::exchange(later_, {})) later.act();
  if (options_.cluster == "local") {
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
  if (!cut_.empty()) return;  // A process on a disconnected host does not learn of the end.
  look_for_left(outcome);
}

void ChaoticRun::look_for_left(Outcome& outcome) {
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

void ChaoticRun::write_down_stacks() {
  for (const pid_t pid : processes_.left()) {
    const auto to = processes_.directory() / fmt::format("stacks.{}.txt", pid);
    [[maybe_unused]] const int ignored = std::system(
        fmt::format("tr '\\0' ' ' < /proc/{0}/cmdline > {1}; timeout 30 gdb -p {0} -batch -ex "
                    "'thread apply all bt' >> {1} 2>&1",
                    pid, to.string())
            .c_str());
  }
}

}  // namespace weft::test
