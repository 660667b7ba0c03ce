#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cpu/cpu_device.h"
#include "mesh/plan/training_plan.h"
#include "mesh/runtime/batch_source.h"
#include "mesh/runtime/interpreter.h"
#include "mesh/runtime/step_result.h"
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
/// tests, for debugging a model, and as the one-device reference. Owner's thread only.
class InProcessTraining final {
 public:
  /// The meshes compute on `device`, which must outlive this; null: on the CPU. A plan with device
  /// collectives needs a device that runs by itself, and `collectives`.
  InProcessTraining(const TrainingPlan& plan, BatchSource& batches, std::uint64_t seed,
                    const transfer::LoopbackOptions& options = {}, Device* device = nullptr,
                    const InProcessCollectives& collectives = {});
  ~InProcessTraining();

  /// Goes on with the programs of another plan for the same devices, which must outlive this: see
  /// MeshGroup::use_layout().
  void use(const TrainingPlan& plan);

  /// Runs a program ("train", "validate") on all devices to its end. Throws the first error of any
  /// device, and Error(kInternal) with every device's position if all of them stand still.
  StepResult run(const StepRequest& request);
  std::vector<StepReport> run_on_devices(const StepRequest& request);

  /// A block of the driver: kCheckpointBuffer, after a batch was gathered, or to fill before it is
  /// scattered.
  std::span<float> driver_block(const std::string& name);

 private:
  struct DeviceSide;
  struct Bell;

  void open_communicators(const TrainingPlan& plan);

  BatchSource& batches_;
  SteadyClock clock_;
  transfer::LoopbackHub hub_;
  CpuDevice cpu_;
  const std::shared_ptr<Bell> bell_;  ///< Rung by devices that run by themselves.
  transfer::CommunicatorLedger ledger_;
  std::vector<std::unique_ptr<DeviceSide>> sides_;  ///< By DeviceId; the last is the driver.
};

}  // namespace weft::mesh
