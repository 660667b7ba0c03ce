#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/bench/pipeline/bench_result.h"
#include "apps/bench/pipeline/pipeline_model.h"
#include "apps/bench/test_cluster.h"
#include "mesh/executor/pipeline_executor.h"
#include "mesh/schedule/costs.h"

namespace weft::apps {

/// Device processes of one workload, which runs arms one after the other. Used by one thread at a
/// time. Borrows the cluster.
class PipelineRun final {
 public:
  struct Options {
    int steps = 3;  ///< Measured steps, after one warm-up step.
    /// Compared schedules. `auto` gets no more memory than they need.
    std::vector<std::string> schedules;
    std::uint64_t link_bits = 0;  ///< Rate of the hosts' shaped links; 0: not shaped.
    std::stop_token stop;
    std::function<void(const std::string&)> progress;  ///< Called with a line of progress.
  };
  /// Starts the processes; shape the links before. Without a cluster, arms are simulated only;
  /// needs an emulated model.
  PipelineRun(TestCluster* cluster, const PipelineModel& model, Options options);

  /// Runs one arm: predicts the step time, installs the programs, runs a warm-up step and the
  /// measured steps. Throws Error(kCancelled) after a stop, and the errors of a step.
  ArmResult run(const Arm& arm);

  /// Returns the seconds that a single microbatch waits for transfers, by the simulator.
  double unhidable_seconds();

  /// Returns F+B of the slowest stage per microbatch, measured with signals only.
  double slowest_stage_seconds();

 private:
  /// Returns a named schedule for this workload's stages.
  mesh::Schedule named(const std::string& name, int microbatches) const;
  /// Searches the schedule of `auto` within the memory of the compared schedules.
  mesh::Schedule search(const Arm& arm, ArmResult& result);
  mesh::ParallelConfig layout_of(const Arm& arm) const;
  /// Returns the schedule under which a real device's actions are measured for an arm. It is the
  /// arm's own, since devices that share a processor slow each other down. For `auto` it is one
  /// that splits the backward.
  static std::string measured_under(const Arm& arm);
  /// Returns the costs of a plan's stages and edges; for real devices, as measured under
  /// `schedule`.
  mesh::ScheduleCosts costs_of(const mesh::TrainingPlan& plan, const std::string& schedule);
  void install(const Arm& arm, const mesh::Schedule& schedule);
  void use(const mesh::ParallelConfig& layout);
  /// Returns the installed plan.
  const mesh::TrainingPlan& plan() const { return group_ ? group_->plan() : planned_; }
  void measure(ArmResult& result);
  std::vector<mesh::StepResult> take_steps(int count);
  /// Returns the action times of real devices in a step under a schedule, with signals only.
  /// Measures once per schedule; installs another plan meanwhile.
  const std::vector<mesh::ActionTime>& measured(const std::string& schedule);

  const PipelineModel model_;
  const Options options_;
  std::map<std::string, std::vector<mesh::ActionTime>> measured_;  ///< Action times by schedule.
  std::optional<mesh::VocabularyTimes> vocabulary_times_;          ///< Set once costs are known.
  std::optional<mesh::PipelineExecutor> group_;
  mesh::TrainingPlan planned_;  ///< Used without a group.
  std::uint64_t step_ = 0;
};

/// Returns the payload bytes per second of a link.
inline double goodput(std::uint64_t link_bits) {
  return static_cast<double>(link_bits) / 8 * kLinkGoodput;
}

}  // namespace weft::apps
