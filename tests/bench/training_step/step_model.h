#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace weft::test {

/// Model of some size for training on one device. training_step times it; the PyTorch peer has the
/// same models.
struct StepModel {
  std::string name = {};
  Graph graph;
  ValueId loss;
  std::vector<ValueId> inputs;
  double items = 0;         ///< Tokens or pictures per step.
  std::string item;         ///< "tokens" or "pictures".
  double largest_loss = 0;  ///< Upper bound of a plausible loss of the untrained model.
};

/// Returns the names: "124m", "small", "u-small", ...
std::vector<std::string> step_model_names();
/// Returns the model `name`. `batch` 0 stands for the model's own; `precision` is f32 or bf16.
/// Throws Error(kInvalidArgument) if there is no such model.
StepModel make_step_model(const std::string& name, std::int64_t batch, DType precision);

/// Returns the contents of the inputs for step `step`, in the order of StepModel::inputs. They
/// depend only on the seed and the step, and can be learned.
std::vector<std::vector<std::byte>> step_inputs(const StepModel& model, std::uint64_t seed,
                                                int step);

}  // namespace weft::test
