#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "core/cpu/cpu_device.h"
#include "mesh/plan/training_plan.h"
#include "mesh/runtime/batch_source.h"
#include "mesh/runtime/interpreter.h"
#include "mesh/runtime/training_engine.h"
#include "transfer/nccl/collective_queue.h"
#include "transfer/nccl/communicator_ledger.h"
#include "transfer/wire/loopback_hub.h"

namespace weft::mesh {

/// Device collectives of devices in one process.
struct InProcessCollectives {
  std::function<std::unique_ptr<transfer::DeviceCollectives>(transfer::DeviceId)> make;
  transfer::CollectiveQueueOptions options;
};

/// All devices of a plan in one thread of one process, over a loopback wire: the same programs,
/// interpreter and transfer engine as in a cluster, but every step is in the caller's hands.
/// (Communicators are made by a thread per device, as their members wait for each other.) For
/// tests, for debugging a model, and as the one-device reference. Schedule `auto` stays with what
/// it begins with, and the first step's note says so. What another thread gathers takes turns with
/// steps.
class InProcessTraining final : public TrainingEngine {
 public:
  /// The meshes compute on `device`, which must outlive this; null: on the CPU. A plan with device
  /// collectives needs a device that runs by itself, and `collectives`.
  InProcessTraining(const TrainingPlan& plan, BatchSource& batches, std::uint64_t seed,
                    const transfer::LoopbackOptions& options = {}, Device* device = nullptr,
                    const InProcessCollectives& collectives = {});
  ~InProcessTraining() override;

  /// Goes on with the programs of another plan for the same devices, which must outlive this: see
  /// MeshGroup::use_layout().
  void use(const TrainingPlan& plan);

  /// Programs besides the plan's, which must outlive this: each on its device.
  void install(const std::vector<Program>& programs);

  const Graph& graph() const override { return plan_->partition.graph; }
  /// Throws the first error of any device, and Error(kInternal) with every device's position if all
  /// of them stand still.
  StepResult run(StepRequest request) override;
  /// The same, without adding up.
  std::vector<StepReport> run_on_devices(StepRequest request);
  bool copies() const override { return plan_->copies_checkpoints(); }
  void copy_state() override;
  void gather(const TakePiece& take, const std::stop_token& stop = {}) override;
  void restore(const GivePiece& give, std::int64_t steps_done) override;
  std::vector<DeviceTrace> take_traces() override;

 private:
  struct DeviceSide;
  struct Bell;

  void open_communicators(const TrainingPlan& plan);
  /// Runs a program that only moves what devices have.
  void move(const Program& program);
  std::span<float> checkpoint_buffer();

  const TrainingPlan* plan_;  ///< The newest.
  BatchSource& batches_;
  SteadyClock clock_;
  transfer::LoopbackHub hub_;
  CpuDevice cpu_;
  const std::shared_ptr<Bell> bell_;  ///< Rung by devices that run by themselves.
  transfer::CommunicatorLedger ledger_;
  std::vector<std::unique_ptr<DeviceSide>> sides_;  ///< By DeviceId; the last is the driver.
  std::mutex mutex_;
  std::uint64_t runs_ = 0;  // guarded by mutex_; of any program: names the transfers of each
  std::vector<DeviceTrace> traces_;
  bool said_what_auto_does_ = false;
};

}  // namespace weft::mesh
