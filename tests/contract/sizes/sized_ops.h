#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/op_rates/step_ops.h"

namespace weft::test {

/// Op of a training step of some model in bf16.
struct SizedOp {
  std::string model;  ///< Name in tests/bench/training_step.
  /// Sequences or pictures of the step; 0 for the model's own.
  std::int64_t batch = 0;
  StepOp op;
  std::string name;  ///< "124m__linear_gelu_1": the number tells ops of a kind apart.
};

/// Returns the distinct ops of a training step. Leaves out the optimizer, sums of gradients, and
/// conversions, whose inputs have a single type.
std::vector<SizedOp> ops_of_model(const std::string& model, std::int64_t batch);

/// Returns the contents of the op's inputs that are data of the model, such as token ids; empty for
/// other inputs. By input.
std::vector<std::vector<std::byte>> data_of(const SizedOp& op);

/// Forward op whose outputs a gradient op reads: its result and its statistics. They belong
/// together, so random numbers cannot replace them.
struct SavedByForward {
  Op op;
  std::size_t inputs =
      0;  ///< The forward op reads the gradient's first inputs; its outputs follow.
};
std::optional<SavedByForward> saved_by_forward(const Op& op);

}  // namespace weft::test
