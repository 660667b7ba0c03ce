#pragma once

#include <nlohmann/json.hpp>

#include <map>

#include "tests/support/real_processes.h"

namespace weft::test {

/// `weft run` of an app whose actors all sit in a long call, with the pids of everybody: what the kill tests kill.
class KillableRun final {
 public:
  /// `hosts` agents of one device each; every device process holds `resident_mib` of touched memory. With `computes` the actors
  /// keep their threads, instead of waiting.
  explicit KillableRun(const std::string& name, int hosts, std::int64_t resident_mib = 0, bool computes = false)
      : processes_(name) {
    std::string list;
    for (int i = 0; i < hosts; ++i) list += fmt::format("{}{{name: worker{}, devices: 1}}", i == 0 ? "" : ", ", i);
    processes_.write("run.yaml", fmt::format("name: killable\napp: cluster_app\ncluster: {{hosts: [{}]}}\n"
                                             "work: {{actors: {}, seconds: 60, resident: {}MiB, computes: {}}}\n",
                                             list, hosts, resident_mib, computes));
    run_ = &processes_.start("weft", {"run", "run.yaml", "--out", "out"});
    head_ = run_->word_after(" at ");
    head_ = head_.substr(0, head_.find(": "));
    driver_ = std::stoi(run_->word_after("driver pid "));
    run_->word_after("working");
    const auto& status = processes_.run("weft", {"status", "--json", "--head", head_});
    status_ = nlohmann::json::parse(status.text());
  }

  RealProcesses& processes() { return processes_; }
  RealProcesses::Process& run() { return *run_; }
  const std::string& head_address() const { return head_; }
  pid_t driver() const { return driver_; }
  pid_t head() const { return status_["pid"]; }
  pid_t agent(int host) const { return status_["hosts"][static_cast<std::size_t>(host)]["agent_pid"]; }
  pid_t device(int rank) { return std::stoi(run_->word_after(fmt::format("device {} pid ", rank))); }

  /// Sends SIGKILL and waits for the error at the driver. Nanoseconds from one to the other; nothing if the driver said none.
  std::optional<std::int64_t> kill_and_time(pid_t victim) {
    const std::int64_t killed = monotonic_ns();
    ::kill(victim, SIGKILL);
    const bool told =
        eventually([this] { return run_->text().find("failed at ") != std::string::npos; }, std::chrono::seconds(5));
    if (!told) return std::nullopt;
    return std::stoll(run_->word_after("failed at ")) - killed;
  }

 private:
  RealProcesses processes_;
  RealProcesses::Process* run_ = nullptr;
  std::string head_;
  pid_t driver_ = 0;
  nlohmann::json status_;
};

}  // namespace weft::test
