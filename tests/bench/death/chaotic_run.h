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

#include "apps/test_cluster/test_hosts.h"
#include "tests/bench/death/blows.h"
#include "tests/bench/death/trouble.h"
#include "tests/support/real_processes.h"

namespace weft::test {

/// Who starts a cluster's processes: "hand", "local" (weft run), "hosts" (by hand, on hosts of
/// namespaces, whose cables are pulled out too).
struct ChaoticRunOptions {
  std::string cluster = "local";
  std::uint64_t seed = 1;
  int steps = 500;
  BlowKinds kinds;
  Trouble::Kind trouble = Trouble::Kind::kNone;
};

/// What became of a run.
struct Outcome {
  std::vector<std::string> wrong;  ///< Empty: as it should be.
  std::map<std::string, int> blows;
  int recoveries = 0, driver_restarts = 0, hosts_lost = 0;
  double seconds = 0;
};

/// The run file of all of them: a GPT on four hosts of one device, and a spare.
extern const char* const kChaoticRun;

/// A cluster and a run on it. One thread at a time.
class ChaoticRun final {
 public:
  explicit ChaoticRun(const ChaoticRunOptions& options);
  ~ChaoticRun();
  ChaoticRun(const ChaoticRun&) = delete;
  ChaoticRun& operator=(const ChaoticRun&) = delete;

  /// Runs to the end. `expected`: the lines of losses_of() of an undisturbed run.
  Outcome go(const std::vector<std::string>& expected);
  /// Keeps the run's folder, with a diary of what was done to it. Returns the folder.
  const std::filesystem::path& keep();

 private:
  using Ms = std::chrono::milliseconds;
  /// A process that is started again by hand.
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
  /// Starts `weft WORDS`, on a host of its own where there are such, with `before` in front.
  RealProcesses::Process& start_on(int host, const std::vector<std::string>& words,
                                   const std::vector<std::string>& before = {});
  void start_head(const std::string& listen);
  void start_agent(int host);
  void start_cluster();
  /// `more`: words after those that every run has.
  void start_run(const std::vector<std::string>& more = {});
  /// True of a run in which two processes got SIGSEGV and no step was finished between, as it says.
  bool ended_by_equal_crashes(const std::string& text) const;
  /// Goes on, without the trouble, with a run that has ended by it: nothing must be lost.
  void resume(Outcome& outcome);
  /// Looks whether a process of this role lives, or the run has ended.
  bool is_alive(Roster::Role role);
  void act_as_operator(Outcome& outcome);
  void tend(Seat& seat, const std::function<void()>& start, Outcome& outcome);
  void strike(const Blow& blow, Outcome& outcome);
  /// Resumes the nsenter of a process on a host of namespaces, which stops with the process.
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
