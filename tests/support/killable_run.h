#pragma once

#include <nlohmann/json.hpp>

#include <map>

#include "tests/support/real_processes.h"

namespace weft::test {

/// `weft run` whose processes a test kills, with the pids of all processes. The app's actors are in
/// a long call.
class KillableRun final {
 public:
  /// Starts `hosts` agents of one device each. Each device process holds `resident_mib` of touched
  /// memory. If `computes`, actors block their threads instead of waiting.
  explicit KillableRun(const std::string& name, int hosts, std::int64_t resident_mib = 0,
                       bool computes = false)
      : processes_(name) {
    std::string list;
    for (int i = 0; i < hosts; ++i)
      list += fmt::format("{}{{name: worker{}, devices: 1}}", i == 0 ? "" : ", ", i);
    processes_.write(
        "run.yaml",
        fmt::format("name: killable\napp: cluster_app\ncluster: {{hosts: [{}]}}\n"
                    "work: {{actors: {}, seconds: 60, resident: {}MiB, computes: {}}}\n",
                    list, hosts, resident_mib, computes));
    start();
    driver_ = std::stoi(run_->word_after("driver pid "));
    run_->word_after("working");
    look();
  }

  /// Starts a training that does not end by itself. Two meshes, in `order` in the run file, have a
  /// host with one device each. Tensors go from `front` to `back` and gradients return. `more` is
  /// added to the run file's `training`.
  enum class Order { kFrontFirst, kBackFirst };
  KillableRun(const std::string& name, Order order, const std::string& more = "")
      : processes_(name) {
    const std::string front = "  front: {hosts: [worker0], shape: {data: 1, tensor: 1}}\n";
    const std::string back = "  back: {hosts: [worker1], shape: {data: 1, tensor: 1}}\n";
    processes_.write(
        "run.yaml",
        fmt::format("name: killable\napp: {}\ncluster: {{hosts: [{{name: worker0, devices: 1}}, "
                    "{{name: worker1, devices: 1}}]}}\n"
                    "meshes:\n{}{}pipeline:\n  stages: [{{mesh: front, layers: 2}}, {{mesh: back, "
                    "layers: 1}}]\n"
                    "  schedule: 1f1b\n  microbatches: 4\ntraining: {{steps: 100000000{}}}\n",
                    RealProcesses::program("training_app").string(),
                    order == Order::kFrontFirst ? front : back,
                    order == Order::kFrontFirst ? back : front, more));
    start();
    run_->word_after("step 2");
    look();
  }

  /// Asks the head for its current processes.
  void look() {
    const auto& status = processes_.run("weft", {"status", "--json", "--head", head_});
    status_ = nlohmann::json::parse(status.text());
  }
  RealProcesses& processes() { return processes_; }
  RealProcesses::Process& run() { return *run_; }
  const std::string& head_address() const { return head_; }
  pid_t driver() const { return driver_; }
  pid_t head() const { return status_["pid"]; }
  pid_t agent(int host) const { return status_["hosts"][host]["agent_pid"]; }
  /// Returns a training's device of `front` (0) or `back` (1).
  pid_t device_on(int host) const {
    const std::string user = status_["hosts"][host]["device_users"][0];
    return std::stoi(user.substr(user.find(" pid ") + 5));
  }
  /// Returns the current lines of OUT/events.jsonl.
  std::vector<nlohmann::json> events() const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(read_file(processes_.directory() / "out" / "events.jsonl"));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  pid_t device(int rank) {
    return std::stoi(run_->word_after(fmt::format("device {} pid ", rank)));
  }

  /// Sends SIGKILL and waits for the driver's error. Returns the nanoseconds in between, or nullopt
  /// if there was no error.
  std::optional<std::int64_t> kill_and_time(pid_t victim) {
    const std::int64_t killed = monotonic_ns();
    ::kill(victim, SIGKILL);
    const bool told =
        eventually([this] { return run_->text().find("failed at ") != std::string::npos; });
    if (!told) return std::nullopt;
    return std::stoll(run_->word_after("failed at ")) - killed;
  }

 private:
  void start() {
    run_ = &processes_.start("weft", {"run", "run.yaml", "--out", "out"});
    head_ = run_->word_after(" at ");
    head_ = head_.substr(0, head_.find(": "));
  }

  RealProcesses processes_;
  RealProcesses::Process* run_ = nullptr;
  std::string head_;
  pid_t driver_ = 0;
  nlohmann::json status_;
};

}  // namespace weft::test
