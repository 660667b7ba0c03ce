#pragma once

#include <string>
#include <vector>

#include "core/graph/op.h"
#include "core/ops/op_definition.h"
#include "core/tensor/shape.h"
#include "mesh/program/program.h"

namespace weft::test {

/// Device work that a training step repeats: a call of Stream with certain types. A value.
struct StepOp {
  /// Function of Stream.
  enum class Call { kRun, kAdd, kCopy, kSumsOfSquares, kAdamW };
  Call call = Call::kRun;
  Op op = {};  ///< Only for kRun.
  /// Types of the tensors read: for kSumsOfSquares and kAdamW, gradients by parameter.
  std::vector<TensorType> inputs = {};
  /// Types of the tensors written. For kAdamW, of each parameter: f32 value, first and second
  /// moment, then the bf16 copy if it has one.
  std::vector<TensorType> outputs = {};
  /// Names of the data inputs that are read; by input, "" for other tensors.
  std::vector<std::string> data = {};
  Cost cost = {};
  int runs = 0;  ///< Number of calls in a step.

  /// Returns "linear" or "adamw", and the same with attributes: "attention(head_dim=64)".
  std::string name() const;
  std::string name_with_attributes() const;
};

/// Returns the distinct device work of a training program, in order of its first occurrence.
/// Includes gradient sums and the optimizer, and excludes copies of data inputs.
std::vector<StepOp> ops_of_step(const mesh::Program& program);

}  // namespace weft::test
