#pragma once

#include <sys/types.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/real_processes.h"

namespace weft::test {

/// Cluster started by hand on this machine: a head, agents worker0, worker1, ..., and busy loops
/// that use up the CPU. One thread at a time.
class ByHandCluster final {
 public:
  struct Size {
    int hosts = 2;
    int devices = 2;  ///< Devices per host.
    int loops = 2;    ///< Number of busy loops.
  };
  ByHandCluster(const std::string& name, const Size& size);
  ~ByHandCluster();
  ByHandCluster(const ByHandCluster&) = delete;
  ByHandCluster& operator=(const ByHandCluster&) = delete;

  /// Starts `weft run` of the quickstart with a small model.
  RealProcesses::Process& start_run(const std::string& out, int steps);
  void kill_head();
  void start_next_head();
  pid_t agent(int host) const { return agents_.at(static_cast<std::size_t>(host)); }
  /// Returns the output of `weft status --json`; null if the head does not respond.
  nlohmann::json status();
  /// Returns the device processes by host and device, as the head knows them. Empty if the head
  /// does not respond.
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
