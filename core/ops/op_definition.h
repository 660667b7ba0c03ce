#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/factor_signature.h"
#include "core/tensor/shape.h"

namespace weft {

/// What one execution of an op costs on one device.
struct Cost {
  double flops = 0;  ///< Floating-point operations; an exponential counts as one.
  double bytes = 0;  ///< Inputs read once plus outputs written once.
};

/// What the gradient rule of an op sees, and where it puts its nodes. core/autodiff implements it.
class GradientRule {
 public:
  virtual ~GradientRule() = default;
  virtual const Node& node() const = 0;
  virtual const TensorType& type(ValueId value) const = 0;
  /// dL/d(output 0). Absent for the loss itself, whose gradient is 1.
  virtual std::optional<ValueId> output_gradient() const = 0;
  /// Whether anything trained lies behind the node's input i.
  virtual bool needs_gradient(std::size_t input) const = 0;
  /// kWeightGrad if the node's input i is a parameter, else kInputGrad.
  virtual Pass pass_of(std::size_t input) const = 0;
  /// Appends a backward node; returns its outputs.
  virtual std::vector<ValueId> emit(Op op, std::vector<ValueId> inputs, Pass pass) = 0;
  /// Says that `gradient` is this node's contribution to the gradient of its input i. It is
  /// converted to the element type that the gradient has: f32 for parameters, else that of the
  /// input.
  virtual void contribute(std::size_t input, ValueId gradient) = 0;
};

/// All that the rest of Weft must know of an op except how it is computed. One per row of the list
/// (core/graph/op_kind.h), constant.
struct OpDefinition {
  /// Output types; throws Error(kInvalidArgument), with the shapes, when the inputs do not fit.
  std::vector<TensorType> (*infer)(const Op& op, std::span<const TensorType> inputs);
  double (*flops)(const Op& op, std::span<const TensorType> inputs);
  FactorSignature (*signature)(const Op& op, std::span<const TensorType> inputs);
  /// Null for ops that appear only in backward.
  void (*differentiate)(GradientRule& rule);
  /// Input whose memory output 0 may reuse (same size, read no later than written); -1 for none.
  int in_place_input = -1;
};

const OpDefinition& definition(OpKind kind);

std::vector<TensorType> infer_types(const Op& op, std::span<const TensorType> inputs);
Cost cost(const Op& op, std::span<const TensorType> inputs);
FactorSignature factor_signature(const Op& op, std::span<const TensorType> inputs);

/// The types of a node's inputs in their order.
std::vector<TensorType> input_types(const Graph& graph, const Node& node);
FactorSignature factor_signature(const Graph& graph, const Node& node);
Cost cost(const Graph& graph, const Node& node);

}  // namespace weft
