#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace weft::test {

class RealProcesses;

/// Live processes of a cluster, as the kernel reports them: heads, agents, device processes and
/// drivers with the marker of a RealProcesses, in any PID namespace. One thread at a time.
class Roster final {
 public:
  enum class Role { kHead, kAgent, kDevice, kDriver };
  struct Member {
    pid_t pid = 0;
    Role role = Role::kHead;
    std::string host;   ///< Host of an agent, or of a device process whose agent was seen.
    std::string label;  ///< Label of a device process: "front[data=0,tensor=1]".
  };

  explicit Roster(const RealProcesses& processes) : processes_(processes) {}

  /// Refreshes the list of processes.
  void look();
  /// Processes at the last look, by pid.
  const std::vector<Member>& living() const { return living_; }
  std::vector<Member> living(Role role) const;
  /// Hosts that had two runnable device processes at a time. Each host has one device.
  const std::vector<std::string>& twofold() const { return twofold_; }

 private:
  const RealProcesses& processes_;
  std::vector<Member> living_;
  std::map<pid_t, Member>
      known_;  ///< Device processes and agents by pid, kept when they or their parents end.
  std::vector<std::string> twofold_;
};

const char* name_of(Roster::Role role);
/// Returns the role named "device", "agent", "head" or "driver". Throws std::runtime_error.
Roster::Role role_named(const std::string& name);

}  // namespace weft::test
