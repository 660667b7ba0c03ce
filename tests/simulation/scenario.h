#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/tiny_training.h"

namespace weft::simulation {

/// Cluster of a head and workers with two consecutive runs and faults from the seed. Checks the
/// runs' results, and that no process is left.
class Scenario final {
 public:
  struct Options {
    std::uint64_t seed = 1;
    bool trace = false;
    bool summary = false;
    bool calm = false;  ///< True if there are no faults.
    Plant plant = Plant::kNone;
    std::filesystem::path scratch;
  };
  struct Result {
    std::vector<std::string> violations;
    std::string outcome;
    double seconds = 0;  ///< simulated time
    std::uint64_t switches = 0;
    std::uint64_t digest = 0;
  };
  explicit Scenario(Options options);
  Result run();

 private:
  /// Person or program that restarts processes that died.
  enum class Keeper {
    kNobody,    ///< Runs fail with their processes.
    kOperator,  ///< A person restarts head and agents. The driver recovers the run.
    kRun,       ///< Same, but `weft run --head` restarts its driver.
    kLocalRun,  ///< `weft run` restarts all processes, on one host.
  };
  static Keeper keeper_of(std::uint64_t seed);
  static TinyOptions training_of(const Options& scenario);
  bool recovers() const { return keeper_ != Keeper::kNobody; }
  bool supervised() const { return keeper_ == Keeper::kRun || keeper_ == Keeper::kLocalRun; }
  void start_head();
  /// Starts a head once the former one has ended.
  void start_head_after(ProcessNumber former);
  void start_worker(int worker);
  void start_missing();
  void keep_up();
  ProcessNumber start_run(const std::string& name);
  void plan_faults(TimePoint until);
  void strike(TimePoint until);
  void lose_head_at_the_end();
  void lose_shared_process();
  void check_run(const std::string& name, ProcessNumber driver);
  void check_end();
  void violation(const std::string& what);
  void suspect(ProcessNumber process);
  void suspect_host(int host);
  bool names_a_suspect(const std::string& error) const;
  ProcessNumber find(const std::string& label) const;

  const Options options_;
  const Keeper keeper_;
  const TinyOptions training_;
  const int workers_;
  Records records_;
  ClusterWorld world_;
  Secret token_;
  std::vector<std::string> faults_;
  std::set<std::string> suspects_;  // words, one of which a failure's cause must contain
  int beyond_head_ = 0;             // faults that affect more than the head
  int beyond_recovery_ = 0;
  bool over_ = false;
  std::string outcome_;
};

}  // namespace weft::simulation
