#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace weft::test {

class RealProcesses;

/// Who of a cluster lives, by what the kernel says: heads, agents, device processes and drivers
/// with the marker of a RealProcesses, in whatever PID namespace. One thread at a time.
class Roster final {
 public:
  enum class Role { kHead, kAgent, kDevice, kDriver };
  struct Member {
    pid_t pid = 0;
    Role role = Role::kHead;
    std::string host;   ///< Of agents, and of device processes where the agent was seen.
    std::string label;  ///< Of device processes: "front[data=0,tensor=1]".
  };

  explicit Roster(const RealProcesses& processes) : processes_(processes) {}

  /// Looks again.
  void look();
  /// As it was at the last look, by pid.
  const std::vector<Member>& living() const { return living_; }
  std::vector<Member> living(Role role) const;
  /// Hosts that had two device processes which could both run; each host has one device.
  const std::vector<std::string>& twofold() const { return twofold_; }

 private:
  const RealProcesses& processes_;
  std::vector<Member> living_;
  std::map<pid_t, Member>
      known_;  ///< Device processes and agents, which outlive their parents' ends.
  std::vector<std::string> twofold_;
};

const char* name_of(Roster::Role role);
/// The role of "device", "agent", "head", "driver". Throws std::runtime_error.
Roster::Role role_named(const std::string& name);

}  // namespace weft::test
