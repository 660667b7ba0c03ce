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
#include "mesh/executor/device_actors.h"
#include "mesh/executor/progress_watch.h"
#include "mesh/runtime/training_engine.h"

namespace weft::mesh {

/// What becomes of a group whose devices die. A value, but for whom it tells.
struct RecoveryOptions {
  /// Of the whole run; outlives the group. Null: an error is final.
  actors::RunRecovery* run = nullptr;
  std::int64_t copy_every = 10;  ///< Steps, between copies of the state in memory; 0: none.
  /// Told of a recovery while the group begins, as nobody asks for it then. May be empty.
  std::function<void(const TrainingEngine::Recovered&)> on_early_recovery = {};
  /// The driver before this one has died, and hosts may have too: begins as it would go on.
  bool takes_over = false;
};

/// Settings of a group.
struct GroupOptions {
  std::uint64_t seed = 1;
  DeviceConfig device = {};
  ProgressLimits progress = {};
  RecoveryOptions recovery = {};
  /// See run(); false where the links are certainly what the layout says.
  bool follow_network = true;
};

/// The device actors of all meshes of a plan, as the driver drives them: spawned on the cluster,
/// connected, with their programs installed and their parameters initialised. One message per
/// device and step.
///
/// Owned by the driver; one thread at a time, but for gather(). When anything throws, the group is
/// of no more use, unless recover() mends it. The error of a dead device is the cluster's incident,
/// not the first symptom.
class MeshGroup final : public TrainingEngine {
 public:
  /// `batches` is what OpenBatches takes in the device processes. `planned`, if it is there, was
  /// made of the same layout and model for where devices are likely to lie; it is taken if they do.
  MeshGroup(actors::Cluster& cluster, const LayoutConfig& layout, const ModelGraphs& model,
            const std::vector<std::byte>& batches, const GroupOptions& options,
            std::optional<TrainingPlan> planned = {});

  const TrainingPlan& plan() const { return plan_; }
  const Graph& graph() const override { return plan_.partition.graph; }

  /// After the 8th, 16th, 32nd... step of "train" the transfers are planned anew if the hosts'
  /// links turn out to carry something else than the plan counts on; the result's note then says
  /// so. Under schedule `auto`, the first steps are measured, and a schedule searched for what they
  /// took (see ScheduleTuner). Sums do not depend on any of it.
  StepResult run(StepRequest request) override;

  /// Goes on with other programs between two steps: another schedule, resharding strategy,
  /// lowering, number of credits, payload or choice of what to recompute. Parameters stay where
  /// they are, and sums do not depend on it. Throws Error(kInvalidArgument) if meshes, sharding or
  /// the layers of stages differ, and what make_training_plan() throws; then all stays as it was.
  void use_layout(const LayoutConfig& layout);

  bool copies() const override { return copies_; }
  void copy_state() override;
  /// Where it copies(), another thread than the group's may do it beside steps, one of them.
  void gather(const TakePiece& take, const std::stop_token& stop = {}) override;
  void restore(const GivePiece& give, std::int64_t steps_done) override;
  bool recovers_from(const Error& error) const override;
  /// Actors that live keep their memory and programs.
  Recovered recover(const Error& why) override;
  void keep_state(std::int64_t steps_done) override;
  std::int64_t inherited_step() const override { return inherited_step_; }
  void restore_kept() override;
  void begin_anew() override;
  std::vector<DeviceTrace> take_traces() override;
  /// The device processes have ended when it returns.
  void release() override;

 private:
  using Reports = actors::Future<std::vector<StepReport>>;

  std::vector<transfer::DevicePlace> find_gpus() const;
  TrainingPlan plan_for(LayoutConfig layout, const DeviceNumbering& numbering,
                        std::optional<TrainingPlan> planned) const;
  void begin(std::optional<TrainingPlan> planned);
  void begin_again();
  void leave_memory_free();
  std::optional<std::string> find_short_machine() const;
  void cancel_collectives(const Error& why);
  enum class On : std::uint8_t { kAllDevices, kOutdatedDevices };
  void install(const std::vector<Program>& programs, On devices = On::kAllDevices);
  std::set<transfer::DeviceId> all_devices() const;
  void initialize();
  void replace(TrainingPlan plan);
  void use(TrainingPlan plan);
  std::string follow_network(const std::vector<double>& egress_rates);
  void follow_times(StepResult& result);

  Reports start(const StepRequest& request);
  ProgressWatch watch(const StepRequest& request, std::string what,
                      const std::vector<Program>* programs, bool with_driver = false);
  void move(const std::vector<Program>& programs);
  void move_beside(const std::string& program, const std::stop_token& stop);
  /// Runs programs without the driver to their end; meanwhile a gather judges nobody.
  std::vector<StepReport> run_step(const StepRequest& request, ProgressWatch watch);
  template <typename Done>
  void move_with_driver(const StepRequest& request, Done done, Nanoseconds interval,
                        const std::function<void()>& look);
  void remember_traces(std::vector<StepReport>& reports);
  void measure_clocks();
  /// Gives the cause rather than the symptom: a connection error may arrive before the head's
  /// report of the crash.
  template <typename F>
  auto guarded(F&& f) {
    std::optional<Error> error;
    try {
      return f();
    } catch (const Error& thrown) {
      error = thrown;
    }
    throw_cause(*error);
  }
  [[noreturn]] void throw_cause(const Error& error);

  actors::Cluster& cluster_;
  const GroupOptions options_;
  const LayoutConfig layout_;  ///< As asked for.
  const ModelGraphs model_;
  const SteadyClock clock_;
  actors::RunRecovery none_;  ///< For a group that ends with the first death.
  actors::RunRecovery& recovery_;
  DeviceActors devices_;
  TrainingPlan plan_;
  transfer::CommunicatorLedger ledger_;
  std::unique_ptr<DriverParticipant> driver_;
  std::vector<std::int64_t> clock_offsets_;  ///< By DeviceId.
  std::vector<DeviceTrace> traces_;
  std::atomic<std::uint64_t> runs_ = 0;  ///< Also counted by who gathers beside steps.
  std::atomic<bool> step_runs_ = false;  ///< Looked at by who gathers beside steps.
  /// Devices that lack programs of the plan: they are new, or installing has failed half-way.
  std::set<transfer::DeviceId> outdated_;
  bool begun_ = false;   ///< There was a plan, and programs.
  bool copies_ = false;  ///< Checkpoints are gathered from copies.
  /// The plan may change between steps, but not in this.
  std::span<const CheckpointBatch> checkpoint_;
  std::uint64_t steps_ = 0, next_look_ = 8;  ///< Of "train".
  ScheduleTuner tuner_;
  /// What devices have in a slot of KeptState.
  struct Kept {
    std::int64_t step = 0;                   ///< Steps done then; 0: nothing.
    bool held = false;                       ///< Holders have theirs, too.
    std::vector<StateReplicas> groups{};     ///< As it was kept.
    std::set<transfer::DeviceId> without{};  ///< Devices that are new since then.
  };
  /// The slot with the newest state that all devices can have; nothing where there is none.
  std::optional<std::size_t> newest_kept() const;
  std::optional<std::vector<Program>> fetch_of(std::size_t slot) const;
  /// Begins to send to holders, where nothing else runs beside steps.
  void begin_hold();
  /// Where what was sent has arrived, the slot is whole.
  void settle_hold();
  void give_up_hold();
  void forget_kept();
  /// Leaves with all devices what is kept, for the driver after this one.
  void note_kept();
  /// Finds what the one before this has left, where it came so far.
  void recall_note();
  /// With the plan: what is whole of that.
  void inherit(const KeptNote& note);
  void run_programs(const std::vector<Program>& programs, std::string what);
  std::array<Kept, KeptState::kSlots> kept_;
  /// What runs beside steps, one at a time: a batch of a checkpoint, or what goes to holders.
  std::mutex beside_;
  std::optional<actors::Future<void>> hold_;       // guarded by beside_
  StepRequest hold_request_;                       // guarded by beside_: of that
  std::optional<std::size_t> hold_due_, holding_;  ///< Slots.
  bool keep_due_ = false;
  std::uint64_t notes_ = 0;  ///< Left so far, also by drivers before this one.
  std::optional<KeptNote> inherited_;
  std::int64_t inherited_step_ = 0;
};

}  // namespace weft::mesh
