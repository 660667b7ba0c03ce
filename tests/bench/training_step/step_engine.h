#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "tests/bench/training_step/step_model.h"

namespace weft::test {

/// Seed of the initial parameters.
inline constexpr std::uint64_t kStepSeed = 1;

/// Contents of the model's inputs, in the order of StepModel::inputs.
using StepContents = std::vector<std::vector<std::byte>>;

/// Device memory of a training step in bytes, without memory that libraries allocate.
struct StepMemory {
  std::size_t persistent = 0;  ///< Parameters, gradients, moments, inputs.
  std::size_t temporary = 0;   ///< Activations and other intermediate values.
};

/// Trains a model on one device, with one microbatch a step. All engines start from equal values
/// and have the same optimizer and clipping. One thread at a time. The device must outlive it.
class StepEngine {
 public:
  virtual ~StepEngine() = default;
  /// Runs the next step: forward, backward, clipping to a global norm, AdamW. Returns the loss. On
  /// a GPU, the update may still be running.
  virtual double step(const StepContents& contents) = 0;
  virtual StepMemory memory() = 0;
};

/// Makes the engine "evaluate" or "runtime":
/// - "evaluate" runs the graph by Evaluation and OneDeviceTrainer;
/// - "runtime" runs the compiled program of a one-device plan by the interpreter, as device
///   processes do.
/// Throws Error(kInvalidArgument) for other names.
std::unique_ptr<StepEngine> make_step_engine(const std::string& name, const StepModel& model,
                                             Device& device);
std::vector<std::string> step_engine_names();

}  // namespace weft::test
