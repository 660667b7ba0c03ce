#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/bench_pipeline/bench_case.h"
#include "apps/bench_pipeline/bench_result.h"
#include "apps/test_cluster/test_cluster.h"

namespace weft::apps {

/// Runs the benchmark's cases on a cluster, whose hosts must be enough for each; without one it
/// simulates them. One thread at a time.
class PipelineBench final {
 public:
  struct Options {
    int steps = 3;
    std::string peer;  ///< See BenchOptions.
    std::filesystem::path out;
    std::stop_token stop;
    std::function<void(const std::string&)> progress;  ///< A line for a person who waits.
  };
  PipelineBench(TestCluster* cluster, Options options)
      : cluster_(cluster), options_(std::move(options)) {}

  /// One case under all its arms: shapes the links, starts device processes, runs the arms one
  /// after the other. Throws what went wrong; Error(kCancelled) after a stop.
  WorkloadResult run(const PipelineCase& bench);

 private:
  void shape_links(int hosts, std::uint64_t bits);
  /// Links at which a boundary's tensors take their part of F+B of the slowest stage, both
  /// measured.
  std::uint64_t link_for(const PipelineCase& bench, const PipelineModel& model);
  std::vector<PeerResult> run_peer(const PipelineCase& bench, std::uint64_t link_bits);

  TestCluster* cluster_;
  const Options options_;
  std::map<std::string, double> stage_seconds_;  ///< By model, as measured.
};

}  // namespace weft::apps
