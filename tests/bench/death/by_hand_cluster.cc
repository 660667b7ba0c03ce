#include "tests/bench/death/by_hand_cluster.h"

#include <fmt/format.h>

namespace weft::test {
namespace {

[[nodiscard]] pid_t start_loop() {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  volatile bool busy = true;
  while (busy) {
  }
  ::_exit(0);
}

}  // namespace

ByHandCluster::ByHandCluster(const std::string& name, const Size& size) : processes_(name) {
  start_head("127.0.0.1:0");
  address_ = head_->word_after("Weft's head listens on ");
  for (int host = 0; host < size.hosts; ++host) {
    const auto& agent =
        processes_.start("weft", {"join", address_, "--name", fmt::format("worker{}", host),
                                  "--devices", std::to_string(size.devices)});
    agent.word_after("has joined cluster");
    agents_.push_back(agent.pid);
  }
  for (int i = 0; i < size.loops; ++i) loops_.push_back(start_loop());
}

ByHandCluster::~ByHandCluster() {
  for (const pid_t loop : loops_) {
    ::kill(loop, SIGKILL);
    ::waitpid(loop, nullptr, 0);
  }
}

RealProcesses::Process& ByHandCluster::start_run(const std::string& out, int steps) {
  return processes_.start(
      "weft", {"run", WEFT_SOURCE_DIR "/cluster.yaml", "--head", address_, "--out", out, "--set",
               "cluster.launcher=manual", "--set", fmt::format("training.steps={}", steps), "--set",
               "model={layers: 4, width: 32, heads: 4, sequence: 16}", "--set",
               "sample={prompt: And, tokens: 2, temperature: 0.6}"});
}

void ByHandCluster::kill_head() {
  ::kill(head_->pid, SIGKILL);
  head_->wait();
}

void ByHandCluster::start_next_head() {
  start_head(address_);
  head_->word_after("head is up");
}

nlohmann::json ByHandCluster::status() {
  auto& asked = processes_.run("weft", {"status", "--json", "--head", address_});
  return asked.wait() == 0 ? nlohmann::json::parse(asked.text()) : nlohmann::json();
}

std::map<std::string, std::string> ByHandCluster::devices() {
  std::map<std::string, std::string> found;
  const nlohmann::json now = status();
  if (now.is_null()) return found;
  for (const auto& host : now["hosts"])
    for (std::size_t device = 0; device < host["device_users"].size(); ++device) {
      const std::string user = host["device_users"][device];
      const auto pid = user.find(" pid ");
      if (pid == std::string::npos) continue;
      found[fmt::format("{} device {}", host["name"].get<std::string>(), device)] =
          user.substr(pid + 5, user.find(',', pid) - pid - 5);
    }
  return found;
}

void ByHandCluster::start_head(const std::string& listen) {
  head_ = &processes_.start("weft", {"head", "--listen", listen, "--state", "state"});
}

}  // namespace weft::test
