#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/bench/pipeline/bench_case.h"
#include "apps/bench/pipeline/bench_result.h"
#include "apps/bench/test_cluster.h"

namespace weft::apps {

/// Runner of the benchmark's cases on a cluster with enough hosts. Simulates them if there is no
/// cluster. Used by one thread at a time.
class PipelineBench final {
 public:
  struct Options {
    int steps = 3;
    std::string peer;  ///< See PipelineBenchOptions.
    std::filesystem::path out;
    std::stop_token stop;
    std::function<void(const std::string&)> progress;  ///< Called with a line of progress.
  };
  PipelineBench(TestCluster* cluster, Options options)
      : cluster_(cluster), options_(std::move(options)) {}

  /// Runs one case: shapes the links, starts device processes, then runs all arms one after the
  /// other. Throws Error(kCancelled) after a stop, and the errors of a run.
  WorkloadResult run(const PipelineCase& bench);

 private:
  void shape_links(int hosts, std::uint64_t bits);
  /// Returns the link rate at which transferring a boundary's tensors takes the case's share of F+B
  /// of the slowest stage. F+B is measured.
  std::uint64_t link_for(const PipelineCase& bench, const PipelineModel& model);
  std::vector<PeerResult> run_peer(const PipelineCase& bench, std::uint64_t link_bits);

  TestCluster* cluster_;
  const Options options_;
  std::map<std::string, double> stage_seconds_;  ///< Measured F+B by model.
};

}  // namespace weft::apps
