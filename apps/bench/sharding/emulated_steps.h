#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/bench/sharding/sharding_case.h"
#include "apps/bench/test_cluster.h"
#include "mesh/executor/pipeline_executor.h"

namespace CLI {
class App;
}  // namespace CLI

namespace weft::apps {

/// Options of benchmarks of emulated devices, each on a host of its own.
struct EmulatedOptions {
  std::int64_t width = 512;
  std::string link = "200mbit";
  int steps = 3;
  bool quick = false;
  bool loopback = false;

  /// Adds the options. `quick_purpose`: help of --quick.
  void add_to(CLI::App& app, const std::string& quick_purpose);
  /// Completes them after the command line has been read: --quick measures one step. Returns the
  /// link's bits per second. Throws Error(kInvalidArgument) for a wrong rate.
  std::uint64_t complete(const CLI::App& app);
};

/// Limits the links of the first hosts of a cluster. On loopback, does nothing and returns false.
bool limit_links(const TestCluster& cluster, int hosts, std::uint64_t bits_per_second);

/// Result of one step of a model.
struct StepCost {
  double seconds = 0;          ///< Median of measured steps.
  double forecast = 0;         ///< Seconds by playing the programs.
  double received = 0;         ///< Bytes that the busiest receiving device receives.
  double interface_ratio = 0;  ///< Bytes received by host0's interface over its program's.
};

/// Training steps of several models on CPUs that compute, in turns: what disturbs one disturbs the
/// next. Each model has hosts of its own on this machine, and waits while another one runs.
class StepsInTurns {
 public:
  /// Borrows the cluster, which has hosts for all models.
  explicit StepsInTurns(TestCluster& cluster) : cluster_(cluster) {}

  /// Adds a model under a name that no other one has.
  void add(const std::string& name, ShardingModel model);
  /// Takes a step of each model, in order. Returns the seconds. Throws Error(kCancelled) once
  /// `stop` is requested.
  std::vector<double> take_steps(const std::stop_token& stop);

 private:
  TestCluster& cluster_;
  std::vector<std::unique_ptr<mesh::PipelineExecutor>> groups_;
  std::size_t hosts_ = 0;  ///< Hosts that models have.
  std::uint64_t step_ = 0;
};

/// Measures training steps of models whose devices are emulated: they compute nothing, take the
/// time that the model's FLOPs need, and send real bytes over the cluster's links.
class EmulatedSteps {
 public:
  /// Measures `steps` steps of each model, after one that warms up. Throws Error(kCancelled) once
  /// `stop` is requested. Borrows the cluster.
  EmulatedSteps(TestCluster& cluster, int steps, std::stop_token stop)
      : cluster_(cluster), steps_(steps), stop_(std::move(stop)) {}

  /// `flops_per_second`: speed of a device; 0: computing takes no time.
  StepCost measure(const ShardingModel& model, double flops_per_second);

 private:
  double take_step(mesh::PipelineExecutor& group);
  /// Returns the bytes that host0's interface has received so far; 0 on loopback.
  double interface_bytes() const;

  TestCluster& cluster_;
  const int steps_;
  const std::stop_token stop_;
  std::uint64_t step_ = 0;
};

}  // namespace weft::apps
