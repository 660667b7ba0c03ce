#pragma once

// What tests run over all ops: cases of each, and a reference of each forward op. Kernels, types in
// bf16, gradients and factor signatures are all tested on these. The cases of an op lie in the file
// of its family, with its reference.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/op.h"
#include "core/tensor/shape.h"

namespace weft::test {

/// What an op reads in an input.
enum class Holds : std::uint8_t {
  kReal,  ///< f32 in an f32 model and bf16 in a bf16 one; the gradient test makes it a parameter.
  kF32,   ///< f32 in both: targets and weights of a loss, statistics.
  kIds,   ///< i32, from 0 to ids_below - 1.
};

struct InputCase {
  Shape shape;
  Holds holds = Holds::kReal;
};

/// The forward op that makes what its gradient reads: of the gradient's first `inputs` inputs it
/// makes the next ones.
struct KeptByForward {
  Op op;
  std::size_t inputs = 0;
};

struct OpCase {
  Op op;
  std::vector<InputCase> inputs;
  std::int64_t ids_below = 0;
  /// Of the results, for errors that are not relative to each of them.
  double size = 1;
  /// Numbers without their sign: sums of squares, of exponentials.
  bool positive = false;
  /// Added to the numbers of input 0 where kernels are compared.
  double shift = 0;
  /// Outputs that are f32 in a bf16 model too: gradients of parameters, losses, statistics.
  std::vector<std::size_t> f32_outputs = {};
  std::optional<KeptByForward> kept = std::nullopt;

  /// Of the inputs, in a model of this precision.
  std::vector<TensorType> types(DType precision = DType::kF32) const;
  bool is_f32(std::size_t output) const;
};

/// "group_norm(group_size=3,epsilon=1e-05) of [2,3,5,6], [6], [6]".
std::string to_string(const OpCase& c);

using Numbers = std::vector<double>;  // Ids too.

/// An op in plain double-precision loops, straight from the formula in core/ops.
struct ReferenceRun {
  const Op& op;
  std::vector<const Numbers*> inputs;
  std::vector<Shape> shapes;

  const Numbers& in(std::size_t i) const { return *inputs[i]; }
  /// Null where the op has no such input.
  const Numbers* optional_in(std::size_t i) const {
    return i < inputs.size() ? inputs[i] : nullptr;
  }
  std::size_t batch() const { return shapes[0].front(); }
  std::size_t last(std::size_t i) const { return shapes[i].back(); }
};
using Reference = Numbers (*)(const ReferenceRun& run);

struct OpCases {
  std::vector<OpCase> cases;
  /// Output 0 of every op that has a gradient, and of all that an output layer is made of.
  std::map<OpKind, Reference> references;

  void add(OpCase c) { cases.push_back(std::move(c)); }
};

/// Of every op but the emulated ones, which compute nothing, and conversions, whose inputs have one
/// type each.
OpCases op_cases();

// The families.
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
