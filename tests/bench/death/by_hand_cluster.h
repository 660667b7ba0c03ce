#pragma once

#include <sys/types.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/real_processes.h"

namespace weft::test {

/// A cluster by hand on this machine: a head, agents worker0, worker1, ..., and processes that use
/// up the CPU beside it. One thread at a time.
class ByHandCluster final {
 public:
  struct Size {
    int hosts = 2;
    int devices = 2;  ///< Of each host.
    int loops = 2;    ///< Busy ones.
  };
  ByHandCluster(const std::string& name, const Size& size);
  ~ByHandCluster();
  ByHandCluster(const ByHandCluster&) = delete;
  ByHandCluster& operator=(const ByHandCluster&) = delete;

  /// `weft run` of the quickstart, with a small model.
  RealProcesses::Process& start_run(const std::string& out, int steps);
  void kill_head();
  void start_next_head();
  pid_t agent(int host) const { return agents_.at(static_cast<std::size_t>(host)); }
  /// What `weft status --json` says; nothing where the head does not answer.
  nlohmann::json status();
  /// Device processes by host and device, as the head sees them; empty where it does not answer.
  std::map<std::string, std::string> devices();
  const std::filesystem::path& directory() const { return processes_.directory(); }

 private:
  void start_head(const std::string& listen);

  RealProcesses processes_;
  RealProcesses::Process* head_ = nullptr;
  std::string address_;
  std::vector<pid_t> agents_;
  std::vector<pid_t> loops_;
};

}  // namespace weft::test
