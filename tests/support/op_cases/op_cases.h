#pragma once

// Test cases of each op, and a reference of each forward op. Used by tests of kernels, bf16 types,
// gradients and factor signatures. Each op family has a file with its cases and references.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/op.h"
#include "core/tensor/shape.h"

namespace weft::test {

/// Kind of values in an input.
enum class Holds : std::uint8_t {
  kReal,  ///< f32 in an f32 model, bf16 in a bf16 model. Parameters in the gradient test.
  kF32,   ///< f32 in both models: a loss's targets and weights, statistics.
  kIds,   ///< i32 from 0 to ids_below - 1.
};

struct InputCase {
  Shape shape;
  Holds holds = Holds::kReal;
};

/// Forward op that saves tensors for a gradient op. From the gradient's first `inputs` inputs, it
/// computes the inputs that follow.
struct KeptByForward {
  Op op;
  std::size_t inputs = 0;
};

struct OpCase {
  Op op;
  std::vector<InputCase> inputs;
  std::int64_t ids_below = 0;
  /// Magnitude of the results, for errors that are not relative to each result.
  double size = 1;
  /// True if inputs are non-negative, such as sums of squares or exponentials.
  bool positive = false;
  /// Added to input 0 in comparisons of kernels.
  double shift = 0;
  /// Outputs that are f32 in a bf16 model too: parameter gradients, losses, statistics.
  std::vector<std::size_t> f32_outputs = {};
  std::optional<KeptByForward> kept = std::nullopt;

  /// Returns the types of the inputs in a model of this precision.
  std::vector<TensorType> types(DType precision = DType::kF32) const;
  bool is_f32(std::size_t output) const;
};

/// Returns "group_norm(group_size=3,epsilon=1e-05) of [2,3,5,6], [6], [6]".
std::string to_string(const OpCase& c);

using Numbers = std::vector<double>;  // also of ids

/// Inputs of an op's reference: plain double-precision loops that follow the formula in core/ops.
struct ReferenceRun {
  const Op& op;
  std::vector<const Numbers*> inputs;
  std::vector<Shape> shapes;

  const Numbers& in(std::size_t i) const { return *inputs[i]; }
  /// Null if the op has no such input.
  const Numbers* optional_in(std::size_t i) const {
    return i < inputs.size() ? inputs[i] : nullptr;
  }
  std::size_t batch() const { return shapes[0].front(); }
  std::size_t last(std::size_t i) const { return shapes[i].back(); }
};
using Reference = Numbers (*)(const ReferenceRun& run);

struct OpCases {
  std::vector<OpCase> cases;
  /// References of output 0 for each op with a gradient, and for an output layer's ops.
  std::map<OpKind, Reference> references;

  void add(OpCase c) { cases.push_back(std::move(c)); }
};

/// Returns cases of every op except emulated ops, which compute nothing, and conversions, whose
/// inputs have a single type.
OpCases op_cases();

// Cases of the op families.
void add_elementwise_cases(OpCases& to);
void add_linear_cases(OpCases& to);
void add_convolution_cases(OpCases& to);
void add_norm_cases(OpCases& to);
void add_attention_cases(OpCases& to);
void add_embedding_cases(OpCases& to);
void add_loss_cases(OpCases& to);
void add_split_loss_cases(OpCases& to);
void add_picture_cases(OpCases& to);

}  // namespace weft::test
