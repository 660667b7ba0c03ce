#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/recovery/run_recovery.h"
#include "core/base/error.h"
#include "mesh/costs/schedule_tuner.h"
#include "mesh/executor/device_group.h"
#include "mesh/executor/internal/background_transfers.h"
#include "mesh/executor/internal/device_traces.h"
#include "mesh/executor/internal/plan_installer.h"
#include "mesh/executor/internal/program_runner.h"
#include "mesh/executor/internal/snapshot_slots.h"
#include "mesh/runtime/training_engine.h"

namespace weft::mesh {

/// Recovery of a group from the death of devices. A value, except for its callback.
struct RecoveryOptions {
  /// Recovery of the whole run; must outlive the group. Null: every error is final.
  actors::RunRecovery* run = nullptr;
  std::int64_t copy_every = 10;  ///< Steps between copies of the state in memory; 0: no copies.
  /// Called when a recovery happens during start-up. May be empty.
  std::function<void(const TrainingEngine::Recovered&)> on_early_recovery = {};
  /// True for a restarted driver: adopts the devices of the previous one, and replaces dead ones.
  bool adopt_existing = false;
};

/// Settings of a PipelineExecutor.
struct PipelineExecutorOptions {
  std::uint64_t seed = 1;
  DeviceConfig device = {};
  PlanConditions conditions = {};  ///< The places of the devices are found from `device`.
  ProgressLimits progress = {};
  RecoveryOptions recovery = {};
  /// False if the link rates in `conditions` are certainly right. See run().
  bool replan_for_network = true;
};

/// Engine in the driver that runs a plan on the device actors of all meshes. Spawns them on the
/// cluster, connects them, installs their programs and initialises their parameters. Sends one
/// message per device and step.
///
///   steps      ProgramRunner: runs programs, judges progress; BackgroundTransfers: beside steps
///   plan       PlanInstaller: makes the plan, installs programs
///   recovery   actors::RunRecovery: replaces processes; SnapshotSlots: copies of the state
///
/// Owned by the driver. One thread at a time, except for gather(). After an exception the group can
/// only be used again if recover() succeeds. If a device died, the exception is the cluster's
/// incident, not the first symptom.
class PipelineExecutor final : public TrainingEngine {
 public:
  /// `batches`: bytes for OpenBatches in the device processes. `planned`: optional plan of the same
  /// layout and model for the expected places; used if the devices are placed there.
  PipelineExecutor(actors::Cluster& cluster, const ParallelConfig& layout, const ModelGraphs& model,
                   const std::vector<std::byte>& batches, const PipelineExecutorOptions& options,
                   std::optional<TrainingPlan> planned = {});

  const TrainingPlan& plan() const { return installer_.plan(); }
  const Graph& graph() const override { return plan().partition.graph; }

  /// Replans the transfers after training step 8, 16, 32, ... if the hosts' observed link rates
  /// differ from the plan's; the result's note says so. Under schedule `auto`, measures the first
  /// steps and searches a faster schedule (see ScheduleTuner). Neither changes any sum.
  StepResult run(StepRequest request) override;

  /// Switches to other programs between two steps: another schedule, resharding strategy, lowering,
  /// number of credits, payload or recomputation. Parameters stay in place, and sums do not change.
  /// Throws Error(kInvalidArgument) if meshes, sharding or the stages' layers differ, and the
  /// errors of make_training_plan(); then nothing changes.
  void switch_layout(const ParallelConfig& layout);

  bool supports_copies() const override { return copies_; }
  void copy_state() override;
  /// If supports_copies(), one thread other than the group's may call it beside steps.
  void gather(const ReadStateSlice& take, const std::stop_token& stop = {}) override;
  void restore(const WriteStateSlice& give, std::int64_t steps_done) override;
  bool recovers_from(const Error& error) const override;
  /// Live actors keep their memory and programs.
  Recovered recover(const Error& why) override;
  void snapshot_state(std::int64_t steps_done) override;
  std::int64_t adopted_step() const override { return adopted_step_; }
  void restore_snapshot() override;
  void reset_parameters() override;
  std::vector<DeviceTrace> take_traces() override { return traces_.take(); }
  /// Returns when the device processes have exited.
  void release() override;

 private:
  void start(std::optional<TrainingPlan> planned);
  /// Begins with devices that are all new or were adopted from another driver.
  void begin(std::optional<TrainingPlan> planned);
  /// Connects the devices of a recovery. Adds the hosts of new ones to `hosts`.
  void reconnect(std::set<std::string>& hosts);
  void initialize();
  /// Applies the tuner's advice after a training step.
  void apply_tuner(StepResult& result);
  /// Gathers beside steps. Uses nothing of the group that a step changes.
  void gather_in_background(const CheckpointBatch& batch, const std::stop_token& stop);
  /// Calls `f` and throws the cause of an error rather than the symptom: a connection error may
  /// arrive before the head's report of the crash.
  template <typename F>
  auto guarded(F&& f) {
    std::optional<Error> error;
    try {
      return f();
    } catch (const Error& thrown) {
      error = thrown;
    }
    rethrow_root_cause(*error);
  }
  [[noreturn]] void rethrow_root_cause(const Error& error);

  actors::Cluster& cluster_;
  const PipelineExecutorOptions options_;
  actors::RunRecovery none_;  ///< Used if the group does not recover.
  actors::RunRecovery& recovery_;
  DeviceGroup devices_;
  PlanInstaller installer_;
  ProgramRunner runner_;
  BackgroundTransfers background_;
  SnapshotSlots snapshots_;
  DeviceTraces traces_;
  ScheduleTuner tuner_;
  bool begun_ = false;   ///< A plan exists and its programs are installed.
  bool copies_ = false;  ///< Checkpoints are gathered from copies.
  std::uint64_t steps_ = 0, next_network_check_ = 8;  ///< Counts training steps.
  std::int64_t adopted_step_ = 0;
};

}  // namespace weft::mesh
