#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/bench_pipeline/bench_result.h"
#include "apps/bench_pipeline/pipeline_model.h"
#include "apps/test_cluster/test_cluster.h"
#include "mesh/executor/mesh_group.h"
#include "mesh/schedule/costs.h"

namespace weft::apps {

/// The device processes of one workload, and the arms that it is run under, one after the other.
/// One thread at a time; borrows the cluster.
class PipelineRun final {
 public:
  struct Options {
    int steps = 3;  ///< Measured, after one to warm up.
    /// Those that are compared: `auto` gets no more memory than they need.
    std::vector<std::string> schedules;
    std::uint64_t link_bits = 0;  ///< What the hosts' links are shaped to; 0: they are not.
    std::stop_token stop;
    std::function<void(const std::string&)> progress;  ///< A line for a person who waits.
  };
  /// Starts the processes; without a cluster, for emulated models, arms are simulated only. The
  /// links must have been shaped.
  PipelineRun(TestCluster* cluster, const PipelineModel& model, Options options);

  /// One arm: predicts the step from the costs, installs its programs, runs a step to warm up and
  /// the measured ones. Throws what went wrong, or Error(kCancelled) after a stop.
  ArmResult run(const Arm& arm);

  /// What a single microbatch has to wait for its transfers, by the simulator.
  double unavoidable_seconds();

  /// F+B of the slowest stage per microbatch, as measured with signals only.
  double slowest_stage_seconds();

 private:
  /// A named schedule over this workload's stages.
  mesh::Schedule named(const std::string& name, int microbatches) const;
  /// `auto`, with the memory that the most demanding of the named schedules needs.
  mesh::Schedule search(const Arm& arm, ArmResult& result);
  mesh::LayoutConfig layout_of(const Arm& arm) const;
  /// The schedule under which actions of real devices are measured for an arm: its own, as devices
  /// that share a processor take longer the more of them compute at a time; of `auto` one that
  /// splits the backward.
  static std::string measured_under(const Arm& arm);
  /// What stages and edges cost under the programs of a plan, measured under a schedule.
  mesh::ScheduleCosts costs_of(const mesh::TrainingPlan& plan, const std::string& schedule);
  void install(const Arm& arm, const mesh::Schedule& schedule);
  void use(const mesh::LayoutConfig& layout);
  /// Of what is installed.
  const mesh::TrainingPlan& plan() const { return group_ ? group_->plan() : planned_; }
  void measure(ArmResult& result);
  std::vector<mesh::StepResult> take_steps(int count);
  /// What the actions of real devices took in a step under a schedule, with signals only. Once for
  /// each; may install another plan meanwhile.
  const std::vector<mesh::ActionTime>& measured(const std::string& schedule);

  const PipelineModel model_;
  const Options options_;
  std::map<std::string, std::vector<mesh::ActionTime>> measured_;  ///< By schedule.
  std::optional<mesh::VocabularyTimes> vocabulary_times_;          ///< Once costs are known.
  std::optional<mesh::MeshGroup> group_;
  mesh::TrainingPlan planned_;  ///< Without a group.
  std::uint64_t step_ = 0;
};

/// Bytes per second that a link of so many bits per second carries for us.
inline double goodput(std::uint64_t link_bits) {
  return static_cast<double>(link_bits) / 8 * kLinkGoodput;
}

}  // namespace weft::apps
