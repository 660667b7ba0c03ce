#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/factor_signature.h"
#include "core/tensor/shape.h"

namespace weft {

/// Cost of one execution of an op on one device.
struct Cost {
  double flops = 0;  ///< Floating-point operations; an exponential counts as one.
  double bytes = 0;  ///< Inputs read once plus outputs written once.
};

/// Context of an op's gradient rule, which appends its nodes through it. Implemented by
/// core/autodiff.
class GradientRule {
 public:
  virtual ~GradientRule() = default;
  virtual const Node& node() const = 0;
  virtual const TensorType& type(ValueId value) const = 0;
  /// Returns dL/d(output 0). Nullopt for the loss itself, whose gradient is 1.
  virtual std::optional<ValueId> output_gradient() const = 0;
  /// Returns true if the node's input i depends on a parameter.
  virtual bool needs_gradient(std::size_t input) const = 0;
  /// Returns kWeightGrad if the node's input i is a parameter, else kInputGrad.
  virtual Pass pass_of(std::size_t input) const = 0;
  /// Appends a backward node. Returns its outputs.
  virtual std::vector<ValueId> emit(Op op, std::vector<ValueId> inputs, Pass pass) = 0;
  /// Adds `gradient` as this node's contribution to the gradient of its input i. Converts it to f32
  /// for parameters, else to the element type of the input.
  virtual void contribute(std::size_t input, ValueId gradient) = 0;
};

/// Properties of an op that do not depend on its implementation. One constant for each row of the
/// list of ops (core/graph/op_kind.h).
struct OpDefinition {
  /// Returns the output types. Throws Error(kInvalidArgument), with the shapes, for invalid inputs.
  std::vector<TensorType> (*infer)(const Op& op, std::span<const TensorType> inputs);
  double (*flops)(const Op& op, std::span<const TensorType> inputs);
  FactorSignature (*signature)(const Op& op, std::span<const TensorType> inputs);
  /// Appends the gradient nodes. Null for ops that occur in backward only.
  void (*differentiate)(GradientRule& rule);
  /// Input whose memory output 0 may reuse (same size, read no later than written); -1: none.
  int in_place_input = -1;
};

const OpDefinition& definition(OpKind kind);

std::vector<TensorType> infer_types(const Op& op, std::span<const TensorType> inputs);
Cost cost(const Op& op, std::span<const TensorType> inputs);
FactorSignature factor_signature(const Op& op, std::span<const TensorType> inputs);

/// Returns the types of a node's inputs, in order.
std::vector<TensorType> input_types(const Graph& graph, const Node& node);
FactorSignature factor_signature(const Graph& graph, const Node& node);
Cost cost(const Graph& graph, const Node& node);

}  // namespace weft
