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
#include "mesh/runtime/wake_flag.h"
#include "transfer/nccl/collective_queue.h"
#include "transfer/nccl/communicator_cache.h"
#include "transfer/wire/loopback_hub.h"

namespace weft::mesh {

/// Library of device collectives for devices in one process.
struct InProcessCollectives {
  std::function<std::unique_ptr<transfer::DeviceCollectives>(transfer::DeviceId)> make;
  transfer::CollectiveQueueOptions options;
};

/// Engine that runs all devices of a plan in one thread of one process, over a loopback wire. Uses
/// the same programs, interpreter and transfer engine as a cluster. Only communicators are created
/// by a thread per device, as their members wait for each other. For tests, for debugging a model,
/// and as the one-device reference. Schedule `auto` keeps the schedule it begins with, and the
/// first step's note says so. A gather() in another thread takes turns with steps.
class InProcessTraining final : public TrainingEngine {
 public:
  /// `device`: device on which the meshes compute; must outlive this; null: the CPU. A plan with
  /// device collectives needs an asynchronous device, and `collectives`.
  InProcessTraining(const TrainingPlan& plan, BatchSource& batches, std::uint64_t seed,
                    const transfer::LoopbackOptions& options = {}, Device* device = nullptr,
                    const InProcessCollectives& collectives = {});
  ~InProcessTraining() override;

  /// Switches to the programs of another plan for the same devices; see
  /// PipelineExecutor::switch_layout(). `plan` must outlive this.
  void use(const TrainingPlan& plan);

  /// Installs further programs, each on its device. They must outlive this.
  void install(const std::vector<Program>& programs);

  const Graph& graph() const override { return plan_->partition.graph; }
  /// Throws the first error of any device, or Error(kInternal) with every device's position if no
  /// device can progress.
  StepResult run(StepRequest request) override;
  /// Runs a step like run(), but returns the reports of all devices.
  std::vector<StepReport> run_on_devices(StepRequest request);
  bool supports_copies() const override { return plan_->copies_checkpoints(); }
  void copy_state() override;
  void gather(const ReadStateSlice& take, const std::stop_token& stop = {}) override;
  void restore(const WriteStateSlice& give, std::int64_t steps_done) override;
  std::vector<DeviceTrace> take_traces() override;

 private:
  struct DeviceSide;
  class ProgramExecution;

  void open_communicators(const TrainingPlan& plan);
  /// Runs a program that only moves data.
  void move(const Program& program);
  std::span<float> checkpoint_buffer();

  const TrainingPlan* plan_;  ///< Plan in use.
  BatchSource& batches_;
  SteadyClock clock_;
  transfer::LoopbackHub hub_;
  CpuDevice cpu_;
  const std::shared_ptr<WakeFlag> wake_flag_;  ///< Notified by asynchronous devices.
  transfer::CommunicatorCache ledger_;
  /// Devices by DeviceId; the last is the driver.
  std::vector<std::unique_ptr<DeviceSide>> sides_;
  std::mutex mutex_;
  std::uint64_t runs_ = 0;  // guarded by mutex_; number of executions, which names their transfers
  std::vector<DeviceTrace> traces_;
  bool auto_note_sent_ = false;
};

}  // namespace weft::mesh
