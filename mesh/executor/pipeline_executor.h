#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/recovery/run_recovery.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "mesh/costs/schedule_tuner.h"
#include "mesh/executor/device_group.h"
#include "mesh/executor/stall_monitor.h"
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
  ProgressLimits progress = {};
  RecoveryOptions recovery = {};
  /// False if the layout's link rates are certainly right. See run().
  bool replan_for_network = true;
};

/// Engine in the driver that runs a plan on the device actors of all meshes. Spawns them on the
/// cluster, connects them, installs their programs and initialises their parameters. Sends one
/// message per device and step.
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

  const TrainingPlan& plan() const { return plan_; }
  const Graph& graph() const override { return plan_.partition.graph; }

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
  std::vector<DeviceTrace> take_traces() override;
  /// Returns when the device processes have exited.
  void release() override;

 private:
  using Reports = actors::Future<std::vector<StepReport>>;

  std::vector<transfer::DeviceCapabilities> find_gpus() const;
  TrainingPlan plan_for(ParallelConfig layout, const DeviceNumbering& numbering,
                        std::optional<TrainingPlan> planned) const;
  void begin(std::optional<TrainingPlan> planned);
  void reconnect_devices();
  void drop_copies_beyond_memory();
  std::optional<std::string> find_short_machine() const;
  void cancel_collectives(const Error& why);
  enum class On : std::uint8_t { kAllDevices, kOutdatedDevices };
  void install(const std::vector<Program>& programs, On devices = On::kAllDevices);
  std::set<transfer::DeviceId> all_devices() const;
  void initialize();
  void replace_plan(TrainingPlan plan);
  void install_plan(TrainingPlan plan);
  std::string replan_for_network(const std::vector<double>& egress_rates);
  void apply_tuner(StepResult& result);

  Reports start(const StepRequest& request);
  StallMonitor watch(const StepRequest& request, std::string what,
                     const std::vector<Program>* programs, bool with_driver = false);
  void run_transfer_program(const std::vector<Program>& programs);
  void run_background_transfer(const std::string& program, const std::stop_token& stop);
  /// Runs programs without the driver to their end. Meanwhile gather() does not judge progress.
  std::vector<StepReport> run_step(const StepRequest& request, StallMonitor watch);
  template <typename Done>
  void move_with_driver(const StepRequest& request, Done done, Nanoseconds interval,
                        const std::function<void()>& on_poll);
  void remember_traces(std::vector<StepReport>& reports);
  void measure_clocks();
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
  const ParallelConfig layout_;  ///< The requested layout.
  const ModelGraphs model_;
  const SteadyClock clock_;
  actors::RunRecovery none_;  ///< Used if the group does not recover.
  actors::RunRecovery& recovery_;
  DeviceGroup devices_;
  TrainingPlan plan_;
  transfer::CommunicatorCache ledger_;
  std::unique_ptr<CheckpointEndpoint> driver_;
  std::vector<std::int64_t> clock_offsets_;  ///< Offsets by DeviceId.
  std::vector<DeviceTrace> traces_;
  /// Number of executions. Also incremented by a background gather().
  std::atomic<std::uint64_t> runs_ = 0;
  std::atomic<bool> step_runs_ = false;  ///< Read by a background gather() too.
  /// Devices that lack programs of the plan: new devices, or all after a failed installation.
  std::set<transfer::DeviceId> outdated_;
  bool begun_ = false;   ///< A plan exists and its programs are installed.
  bool copies_ = false;  ///< Checkpoints are gathered from copies.
  /// Checkpoint programs. They stay the same when the plan changes between steps.
  std::span<const CheckpointBatch> checkpoint_;
  std::uint64_t steps_ = 0, next_network_check_ = 8;  ///< Counts training steps.
  ScheduleTuner tuner_;
  /// State of one slot of InMemoryCheckpoint on the devices.
  struct Snapshot {
    std::int64_t step = 0;               ///< Steps done when the slot was filled; 0: empty.
    bool on_backups = false;             ///< True if the backup devices' copies are complete too.
    std::vector<ReplicaGroup> groups{};  ///< Replica groups of that time.
    std::set<transfer::DeviceId> missing_devices{};  ///< Devices added since then, which lack it.
  };
  /// Returns the slot with the newest state that all devices can obtain, or nothing.
  std::optional<std::size_t> newest_snapshot() const;
  std::optional<std::vector<Program>> fetch_of(std::size_t slot) const;
  /// Starts the due transfer to backup devices, unless a background transfer is running.
  void start_replication();
  /// Sets on_backups of the slot once the transfer to backup devices is complete.
  void finish_replication();
  void cancel_replication();
  void discard_snapshots();
  /// Leaves a note of the complete slots with all devices, for a restarted driver.
  void publish_manifest();
  /// Reads the note that the previous driver left, if any.
  void fetch_manifest();
  /// Takes the complete slots of that note into snapshots_. Needs the plan.
  void adopt_snapshots(const SnapshotManifest& note);
  void run_programs(const std::vector<Program>& programs, std::string what);
  std::array<Snapshot, InMemoryCheckpoint::kSlots> snapshots_;
  /// Guards background transfers, one at a time: a checkpoint batch, or a replication.
  std::mutex beside_;
  std::optional<actors::Future<void>> replication_;           // guarded by beside_
  StepRequest replication_request_;                           // guarded by beside_
  std::optional<std::size_t> replication_due_, replicating_;  ///< Slot due to be sent; being sent.
  bool snapshot_due_ = false;
  std::uint64_t notes_ = 0;  ///< Number of the last note, over all drivers of the run.
  std::optional<SnapshotManifest> adopted_manifest_;
  std::int64_t adopted_step_ = 0;
};

}  // namespace weft::mesh
