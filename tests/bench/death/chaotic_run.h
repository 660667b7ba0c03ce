#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/bench/test_hosts.h"
#include "tests/bench/death/blows.h"
#include "tests/bench/death/trouble.h"
#include "tests/support/real_processes.h"

namespace weft::test {

/// Options of a chaotic run. `cluster` says how its processes are started: "hand", "local" (weft
/// run), or "hosts" (by hand, on hosts made of namespaces, which can be disconnected).
struct ChaoticRunOptions {
  std::string cluster = "local";
  std::uint64_t seed = 1;
  int steps = 500;
  BlowKinds kinds;
  Trouble::Kind trouble = Trouble::Kind::kNone;
};

/// Result of a run.
struct Outcome {
  std::vector<std::string> wrong;  ///< Deviations from an undisturbed run; empty if there are none.
  std::map<std::string, int> blows;
  int recoveries = 0, driver_restarts = 0, hosts_lost = 0;
  double seconds = 0;
};

/// Run file of every chaotic run: a GPT on four hosts of one device, and a spare.
extern const char* const kChaoticRun;

/// Cluster with a run. One thread at a time.
class ChaoticRun final {
 public:
  explicit ChaoticRun(const ChaoticRunOptions& options);
  ~ChaoticRun();
  ChaoticRun(const ChaoticRun&) = delete;
  ChaoticRun& operator=(const ChaoticRun&) = delete;

  /// Runs to the end. `expected`: the lines of losses_of() of an undisturbed run.
  Outcome go(const std::vector<std::string>& expected);
  /// Keeps the run's folder, with a log of the blows. Returns the folder.
  const std::filesystem::path& keep();

 private:
  using Ms = std::chrono::milliseconds;
  /// Process that is restarted by hand.
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

  Ms now() const;
  void note(const std::string& text);
  /// Starts `before weft words`, on host `host` if there are hosts made of namespaces.
  RealProcesses::Process& start_on(int host, const std::vector<std::string>& words,
                                   const std::vector<std::string>& before = {});
  void start_head(const std::string& listen);
  void start_agent(int host);
  void start_cluster();
  /// Starts `weft run`. `more`: words appended to those of every run.
  void start_run(const std::vector<std::string>& more = {});
  /// Returns true if the run ended because two processes got SIGSEGV without a finished step
  /// between, and says so.
  bool ended_by_equal_crashes(const std::string& text) const;
  /// Resumes a run that its trouble has ended, without the trouble. Nothing may be lost.
  void resume(Outcome& outcome);
  /// Returns true if a process of this role is alive, or if the run has ended.
  bool is_alive(Roster::Role role);
  void act_as_operator(Outcome& outcome);
  void tend(Seat& seat, const std::function<void()>& start, Outcome& outcome);
  void strike(const Blow& blow, Outcome& outcome);
  /// Resumes the nsenter that started a process on a host made of namespaces. nsenter stops when
  /// the process is stopped.
  void wake_parent(pid_t parent) const;
  void cut(const Blow& blow, Outcome& outcome);
  void look_at_end(const std::vector<std::string>& expected, Outcome& outcome);
  void look_for_left(Outcome& outcome);
  void write_down_stacks();

  RealProcesses processes_;
  Roster roster_;
  const ChaoticRunOptions options_;
  Draw draw_;
  const std::vector<Blow> blows_;
  std::int64_t begun_;
  Trouble trouble_;
  std::optional<apps::TestHosts> hosts_;
  std::string address_;
  Seat head_;
  std::vector<Seat> agents_;
  RealProcesses::Process* run_ = nullptr;
  std::vector<Later> later_;
  std::set<int> cut_;
  std::string diary_;
};

}  // namespace weft::test
