#include "tests/bench/death/head_kills.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/bench/death/run_records.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

const char* const kRunFile = WEFT_SOURCE_DIR "/cluster.yaml";
constexpr int kHosts = 2;
constexpr int kDevices = 2;

/// A cluster by hand on this machine, with processes that use up the CPU beside it.
class LoadedCluster {
 public:
  explicit LoadedCluster(int steps) : processes_("head_kills"), steps_(steps) {
    start_head("127.0.0.1:0");
    address_ = head_->word_after("Weft's head listens on ");
    for (int host = 0; host < kHosts; ++host)
      processes_
          .start("weft", {"join", address_, "--name", fmt::format("worker{}", host), "--devices",
                          std::to_string(kDevices)})
          .word_after("has joined cluster");
    for (int i = 0; i < 2; ++i) loads_.push_back(start_load());
  }
  ~LoadedCluster() {
    for (const pid_t load : loads_) {
      ::kill(load, SIGKILL);
      ::waitpid(load, nullptr, 0);
    }
  }
  LoadedCluster(const LoadedCluster&) = delete;
  LoadedCluster& operator=(const LoadedCluster&) = delete;

  RealProcesses::Process& start_run(const std::string& out) {
    return processes_.start(
        "weft", {"run", WEFT_SOURCE_DIR "/cluster.yaml", "--head", address_, "--out", out, "--set",
                 "cluster.launcher=manual", "--set", fmt::format("training.steps={}", steps_),
                 "--set", "model={layers: 4, width: 32, heads: 4, sequence: 16}", "--set",
                 "sample={prompt: And, tokens: 2, temperature: 0.6}"});
  }
  void kill_head() {
    ::kill(head_->pid, SIGKILL);
    head_->wait();
  }
  void start_next_head() {
    start_head(address_);
    head_->word_after("head is up");
  }
  /// Device processes by host and device, as the head sees them; empty where it does not answer.
  std::map<std::string, std::string> devices() {
    std::map<std::string, std::string> found;
    auto& asked = processes_.run("weft", {"status", "--json", "--head", address_});
    if (asked.wait() != 0) return found;
    for (const auto& host : nlohmann::json::parse(asked.text())["hosts"])
      for (std::size_t device = 0; device < host["device_users"].size(); ++device) {
        const std::string user = host["device_users"][device];
        const auto pid = user.find(" pid ");
        if (pid == std::string::npos) continue;
        found[fmt::format("{} device {}", host["name"].get<std::string>(), device)] =
            user.substr(pid + 5, user.find(',', pid) - pid - 5);
      }
    return found;
  }
  const std::filesystem::path& directory() const { return processes_.directory(); }

 private:
  void start_head(const std::string& listen) {
    head_ = &processes_.start("weft", {"head", "--listen", listen, "--state", "state"});
  }
  [[nodiscard]] static pid_t start_load() {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    volatile bool busy = true;
    while (busy) {
    }
    ::_exit(0);
  }

  RealProcesses processes_;
  const int steps_;
  RealProcesses::Process* head_ = nullptr;
  std::string address_;
  std::vector<pid_t> loads_;
};

}  // namespace

int kill_heads(int kills, int steps) {
  LoadedCluster cluster(steps);
  if (cluster.start_run("undisturbed").wait(std::chrono::minutes(5)) != 0)
    throw std::runtime_error("the undisturbed run failed");
  const auto expected = losses_of(cluster.directory() / "undisturbed");
  std::mt19937 random(1);
  const auto pause = [&](int most_ms) {
    ::usleep(1000 * std::uniform_int_distribution<int>(0, most_ms)(random));
  };
  int killed = 0, runs = 0, failures = 0;
  while (killed < kills) {
    const std::string out = fmt::format("run{}", ++runs);
    auto& run = cluster.start_run(out);
    std::map<std::string, std::string> devices;
    const int before = killed;
    while (run.wait(std::chrono::milliseconds(1)) < 0) {
      pause(600);
      cluster.kill_head();
      ++killed;
      pause(300);
      cluster.start_next_head();
      for (const auto& [device, pid] : cluster.devices()) {
        const std::string& first = devices.emplace(device, pid).first->second;
        if (first == pid) continue;
        fmt::print("{}: {} has process {}, and had {}\n", out, device, pid, first);
        ++failures;
      }
    }
    const bool same = run.wait() == 0 && losses_of(cluster.directory() / out) == expected;
    fmt::print(
        "run {}: {} heads killed, {}\n", runs, killed - before,
        same ? "each step once, losses as undisturbed" : "NOT as undisturbed:\n" + run.text());
    if (!same) ++failures;
  }
  fmt::print("{} heads killed under load in {} runs of {} steps on {} hosts: {} wrong\n", killed,
             runs, steps, kHosts, failures);
  return failures;
}

}  // namespace weft::test
