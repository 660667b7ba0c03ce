#pragma once

#include <filesystem>
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
  void start_head();
  void start_worker(int worker);
  void start_missing();
  void keep_up();
  ProcessNumber start_run(const std::string& name);
  void plan_faults(TimePoint until);
  void strike(TimePoint until);
  void check_run(const std::string& name, ProcessNumber driver);
  void check_end();
  void violation(const std::string& what);
  ProcessNumber find(const std::string& label) const;

  const Options options_;
  const bool
      recovers_;  // of every other seed the runs recover, and an operator starts agents again
  const TinyOptions training_;
  Records records_;
  ClusterWorld world_;
  Secret token_;
  std::vector<std::string> faults_;
  int beyond_head_ = 0;  // faults of others than the head
  int beyond_recovery_ = 0;
  bool over_ = false;
  std::string outcome_;
};

}  // namespace weft::simulation
