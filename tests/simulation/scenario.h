#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/tiny_training.h"

namespace weft::simulation {

/// A cluster of a head and workers, two runs one after the other, and what the seed has in store
/// for them. Afterwards nothing may be left, and what was promised must hold.
class Scenario final {
 public:
  struct Options {
    std::uint64_t seed = 1;
    bool trace = false;
    bool summary = false;
    bool calm = false;  ///< Nothing fails.
    Plant plant = Plant::kNone;
    std::filesystem::path scratch;
  };
  struct Result {
    std::vector<std::string> violations;
    std::string outcome;
    double seconds = 0;  ///< of the world
    std::uint64_t switches = 0;
    std::uint64_t digest = 0;
  };
  explicit Scenario(Options options);
  Result run();

 private:
  /// Who has what died started again.
  enum class Keeper {
    kNobody,    ///< ... and its runs end with it.
    kOperator,  ///< A person, head and agents; the run goes on by itself.
    kRun,       ///< The same, and `weft run --head` its driver.
    kLocalRun,  ///< `weft run` everything, on one host.
  };
  static Keeper keeper_of(std::uint64_t seed);
  static TinyOptions training_of(std::uint64_t seed, Plant plant);
  bool recovers() const { return keeper_ != Keeper::kNobody; }
  bool supervised() const { return keeper_ == Keeper::kRun || keeper_ == Keeper::kLocalRun; }
  void start_head();
  void start_worker(int worker);
  void start_missing();
  void keep_up();
  ProcessNumber start_run(const std::string& name);
  void plan_faults(TimePoint until);
  void strike(TimePoint until);
  void lose_head_at_the_end();
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
  std::set<std::string> suspects_;  // words, one of which the cause of a failure has to have
  int beyond_head_ = 0;             // faults of others than the head
  int beyond_recovery_ = 0;
  bool over_ = false;
  std::string outcome_;
};

}  // namespace weft::simulation
