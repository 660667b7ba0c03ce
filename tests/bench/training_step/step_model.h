#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace weft::test {

/// A model at some size, to be trained on one device: what training_step times and PyTorch's peer
/// has too.
struct StepModel {
  std::string name = {};
  Graph graph;
  ValueId loss;
  std::vector<ValueId> inputs;
  double items = 0;         ///< Tokens or pictures per step.
  std::string item;         ///< "tokens"
  double largest_loss = 0;  ///< Of an untrained model, with room: more makes no sense.
};

/// "124m", "small", "u-small", ...
std::vector<std::string> step_model_names();
/// `batch` 0: the model's own; `precision` is f32 or bf16. Throws Error(kInvalidArgument) if there
/// is no such model.
StepModel make_step_model(const std::string& name, std::int64_t batch, DType precision);

/// Contents of the inputs for step `step`, by StepModel::inputs: depend on the seed and the step
/// alone, and there is something to learn.
std::vector<std::vector<std::byte>> step_inputs(const StepModel& model, std::uint64_t seed,
                                                int step);

}  // namespace weft::test
