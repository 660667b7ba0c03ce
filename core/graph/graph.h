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

/// Which part of a training step a node belongs to. Schedules move W apart from I (reference:
/// zero-bubble pipelines).
enum class Pass : std::uint8_t {
  kForward,
  kInputGrad,   ///< I: on the path to earlier stages
  kWeightGrad,  ///< W: needed only by the optimizer
};

/// "F", "I", "W".
std::string_view to_string(Pass pass);

/// One SSA value of the logical (unsharded) program of one microbatch.
struct Value {
  std::string name;
  TensorType type;
  std::optional<NodeId> producer;  ///< None for inputs and parameters.
  /// Of a gradient, or a term of one: the value by which the loss is differentiated.
  std::optional<ValueId> gradient_of = {};
};

/// One operation. Outputs are new values; nothing is overwritten.
struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  /// Which block of the model; stages are cut between blocks. A gradient node has its forward
  /// node's block.
  int block = 0;
  Pass pass = Pass::kForward;
  /// The forward node whose gradient rule has made this one; none of forward nodes and of those
  /// that add up gradients.
  std::optional<NodeId> forward = {};
};

/// How a parameter starts.
struct Initializer {
  enum class Kind : std::uint8_t { kZeros, kOnes, kNormal };
  Kind kind = Kind::kZeros;
  double standard_deviation = 0;  ///< For kNormal; the mean is 0.
  friend bool operator==(const Initializer&, const Initializer&) = default;
};

/// A value that is trained. A bf16 value is the copy that ops read; the optimizer's master value,
/// f32, lies beside the graph. `axes` has one logical name per dimension ("embed", "heads", "mlp",
/// "vocab", ...), which the sharding section of a configuration maps to mesh axes.
struct Parameter {
  ValueId value;
  Initializer initializer;
  std::vector<std::string> axes;
  bool decay = true;  ///< Whether weight decay applies (not to biases and norms).
  /// As it is initialised and as checkpoints have it. The value may go beyond it, with zeros that
  /// stay zeros (padding).
  Shape shape = {};
};

/// A value that comes from the data set: token ids, targets, pictures. Its first dimension is the
/// microbatch.
struct Input {
  ValueId value;
  std::vector<std::string> axes;  ///< Logical names as for parameters; the first is "batch".
};

/// The logical program of one microbatch: values, and nodes in an order in which they can run.
///
/// A value type; only appended to. Knows nothing of devices, shapes of meshes, or how an op is
/// computed.
class Graph {
 public:
  ValueId add_input(std::string name, TensorType type, std::vector<std::string> axes);
  ValueId add_parameter(std::string name, TensorType type, Initializer initializer,
                        std::vector<std::string> axes, bool decay);
  /// One whose value is padded: `shape` is what of it is more than padding, from the first element
  /// of each dimension.
  ValueId add_padded_parameter(std::string name, TensorType type, Shape shape,
                               Initializer initializer, std::vector<std::string> axes, bool decay);
  /// Appends a node whose outputs are new values of the given types. core/ops infers the types;
  /// apps do not call this.
  NodeId add_node(Op op, std::vector<ValueId> inputs, const std::vector<TensorType>& output_types,
                  const std::vector<std::string>& output_names, int block, Pass pass,
                  std::optional<NodeId> forward = {});
  /// Says that a value is a gradient of another one, or a term of it. What is the gradient of
  /// several (of a sum and of its terms) keeps the first.
  void mark_gradient(ValueId gradient, ValueId of);

  const Value& value(ValueId id) const { return values_[id.value()]; }
  const Node& node(NodeId id) const { return nodes_[id.value()]; }
  std::span<const Value> values() const { return values_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Input> inputs() const { return inputs_; }
  std::span<const Parameter> parameters() const { return parameters_; }
  /// 1 + the largest block of any node.
  int num_blocks() const;
  /// Sum over parameters of their elements, without padding.
  std::int64_t num_parameter_elements() const;

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Input> inputs_;
  std::vector<Parameter> parameters_;
};

/// One line per node: "%7 f32[8,16,64] h0.ln = layer_norm(%5, %1, %2) block 1 F".
std::string to_string(const Graph& graph);

/// A parameter and a value, f32, that is its gradient for one microbatch, or a term of it: a
/// parameter that several blocks share has a term from each. Terms are summed over microbatches
/// each by itself, then added up in their order, once per step; so the sum does not depend on where
/// the blocks lie.
struct Gradient {
  ValueId parameter;
  ValueId gradient;
};

/// A forward graph extended by its backward nodes; what autodiff returns.
struct TrainingGraph {
  Graph graph;
  ValueId loss;  ///< A scalar f32.
  /// In the order of graph.parameters(), then of blocks; every parameter has one or more.
  std::vector<Gradient> gradients;
};

}  // namespace weft
