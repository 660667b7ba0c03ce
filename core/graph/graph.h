#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/strong_id.h"
#include "core/graph/op.h"
#include "core/tensor/shape.h"

namespace weft {

using ValueId = StrongId<struct ValueTag>;
using NodeId = StrongId<struct NodeTag>;

/// Part of a training step that a node belongs to. Schedules place W separately from I, as in
/// zero-bubble pipelines.
enum class Pass : std::uint8_t {
  kForward,
  kInputGrad,   ///< I: input gradient, needed by earlier stages.
  kWeightGrad,  ///< W: weight gradient, needed by the optimizer only.
};

/// Returns "F", "I" or "W".
std::string_view to_string(Pass pass);

/// SSA value of the logical (unsharded) program of one microbatch.
struct Value {
  std::string name;
  TensorType type;
  std::optional<NodeId> producer;  ///< Null for inputs and parameters.
  /// Value with respect to which this gradient, or term of one, differentiates the loss. Null for
  /// others.
  std::optional<ValueId> gradient_of = {};
};

/// Operation of the graph. Its outputs are new values; no value is overwritten.
struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  /// Block of the model; stages are cut between blocks. A gradient node has the block of its
  /// forward node.
  int block = 0;
  Pass pass = Pass::kForward;
  /// Forward node whose gradient rule created this node. Null for forward nodes and for nodes that
  /// sum gradients.
  std::optional<NodeId> forward = {};
};

/// Initial values of a parameter.
struct Initializer {
  enum class Kind : std::uint8_t { kZeros, kOnes, kNormal };
  Kind kind = Kind::kZeros;
  double standard_deviation = 0;  ///< Used by kNormal; the mean is 0.
  friend bool operator==(const Initializer&, const Initializer&) = default;
};

/// Trained value. A bf16 value is the copy that ops read; the optimizer keeps an f32 master value
/// outside the graph. `axes` has one logical name per dimension ("embed", "heads", "mlp", "vocab",
/// ...), which the sharding section of a configuration maps to mesh axes.
struct Parameter {
  ValueId value;
  Initializer initializer;
  std::vector<std::string> axes;
  bool decay = true;  ///< True if weight decay applies; false for biases and norms.
  /// Shape as initialised and as saved in checkpoints. The value may be larger; the padding is zero
  /// and stays zero.
  Shape shape = {};
};

/// Value read from the data set: token ids, targets, pictures. Its first dimension is the
/// microbatch.
struct Input {
  ValueId value;
  std::vector<std::string> axes;  ///< Logical names like those of parameters; the first is "batch".
};

/// Logical program of one microbatch: values, and nodes in an executable order.
///
/// Append-only and copyable. Independent of devices, mesh shapes and the implementation of ops.
class Graph {
 public:
  ValueId add_input(std::string name, TensorType type, std::vector<std::string> axes);
  ValueId add_parameter(std::string name, TensorType type, Initializer initializer,
                        std::vector<std::string> axes, bool decay);
  /// Adds a parameter with a padded value. `shape` is the unpadded part, which starts at index 0 of
  /// each dimension.
  ValueId add_padded_parameter(std::string name, TensorType type, Shape shape,
                               Initializer initializer, std::vector<std::string> axes, bool decay);
  /// Appends a node whose outputs are new values of the given types. Called by core/ops, which
  /// infers the types, not by apps.
  NodeId add_node(Op op, std::vector<ValueId> inputs, const std::vector<TensorType>& output_types,
                  const std::vector<std::string>& output_names, int block, Pass pass,
                  std::optional<NodeId> forward = {});
  /// Records that a value is the gradient, or a term of the gradient, of another value. A value
  /// marked several times keeps the first mark.
  void mark_gradient(ValueId gradient, ValueId of);

  const Value& value(ValueId id) const { return values_[id.value()]; }
  const Node& node(NodeId id) const { return nodes_[id.value()]; }
  std::span<const Value> values() const { return values_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Input> inputs() const { return inputs_; }
  std::span<const Parameter> parameters() const { return parameters_; }
  /// Returns 1 + the largest block of any node.
  int num_blocks() const;
  /// Returns the number of elements of all parameters, without padding.
  std::int64_t num_parameter_elements() const;

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Input> inputs_;
  std::vector<Parameter> parameters_;
};

/// Returns one line per node: "%7 f32[8,16,64] h0.ln = layer_norm(%5, %1, %2) block 1 F".
std::string to_string(const Graph& graph);

/// Parameter and an f32 value that is its gradient for one microbatch, or a term of it. A parameter
/// that several blocks use has a term from each block. Each term is summed over microbatches
/// separately. The terms are then added in their order, once per step, so that the sum does not
/// depend on the placement of the blocks.
struct Gradient {
  ValueId parameter;
  ValueId gradient;
};

/// Forward graph extended by its backward nodes; the result of autodiff.
struct TrainingGraph {
  Graph graph;
  ValueId loss;  ///< Scalar f32.
  /// Sorted like graph.parameters(), then by block; at least one for every parameter.
  std::vector<Gradient> gradients;
};

}  // namespace weft
