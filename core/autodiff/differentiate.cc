#include "core/autodiff/differentiate.h"

#include <map>
#include <string_view>
#include <unordered_set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/ops/op_definition.h"

namespace weft {
namespace {

/// Visits the forward nodes in reverse order and lets each op's rule append its gradient nodes.
class Differentiation final : public GradientRule {
 public:
  Differentiation(const Graph& forward, ValueId loss)
      : graph_(forward), num_forward_nodes_(forward.nodes().size()), loss_(loss) {
    find_trained();
  }

  TrainingGraph run() {
    for (std::size_t i = num_forward_nodes_; i-- > 0;) {
      current_ = forward_node(i);
      current_id_ = NodeId(i);
      const ValueId output = current_.outputs[0];
      if (!trained_[output.value()]) continue;
      output_gradient_ = output == loss_ ? std::nullopt : sum_of(output);
      if (output != loss_ && !output_gradient_) continue;  // the loss does not depend on it
      definition(current_.op.kind).differentiate(*this);
    }
    TrainingGraph result{{}, loss_, {}};
    const std::vector<Parameter> parameters(graph_.parameters().begin(), graph_.parameters().end());
    for (const Parameter& parameter : parameters) {
      const auto found = contributions_.find(parameter.value);
      if (found == contributions_.end()) {
        throw_error(ErrorCode::kInvalidArgument,
                    "the parameter '{}' does not influence the loss: use it or remove it",
                    graph_.value(parameter.value).name);
      }
      // Each block has one gradient term: if blocks are placed on different devices, the terms are
      // summed only once per step.
      std::map<int, std::vector<ValueId>> by_block;
      for (const Contribution& contribution : found->second)
        by_block[contribution.block].push_back(contribution.gradient);
      for (const auto& [block, gradients] : by_block) {
        result.gradients.push_back(
            {parameter.value, add_up(gradients, block, Pass::kWeightGrad, parameter.value)});
      }
    }
    result.graph = std::move(graph_);
    return result;
  }

  const Node& node() const override { return current_; }
  const TensorType& type(ValueId value) const override { return graph_.value(value).type; }
  std::optional<ValueId> output_gradient() const override { return output_gradient_; }
  bool needs_gradient(std::size_t input) const override {
    return trained_[current_.inputs[input].value()];
  }
  Pass pass_of(std::size_t input) const override {
    return pass_of_gradient(current_.inputs[input]);
  }

  std::vector<ValueId> emit(Op op, std::vector<ValueId> inputs, Pass pass) override {
    return append(std::move(op), std::move(inputs), current_.block, pass,
                  graph_.value(current_.outputs[0]).name, current_id_);
  }

  void contribute(std::size_t input, ValueId gradient) override {
    const ValueId value = current_.inputs[input];
    WEFT_CHECK(type(gradient).shape == type(value).shape, "gradient of %{} {} is {}", value,
               to_string(type(value)), to_string(type(gradient)));
    graph_.mark_gradient(gradient, value);
    const DType dtype = is_parameter_[value.value()] ? DType::kF32 : type(value).dtype;
    if (type(gradient).dtype != dtype) {
      gradient = emit({dtype == DType::kF32 ? OpKind::kToF32 : OpKind::kToBF16, {}}, {gradient},
                      pass_of(input))[0];
      graph_.mark_gradient(gradient, value);
    }
    contributions_[value].push_back({gradient, current_.block});
  }

 private:
  Node forward_node(std::size_t index) const { return graph_.nodes()[index]; }

  Pass pass_of_gradient(ValueId value) const {
    return is_parameter_[value.value()] ? Pass::kWeightGrad : Pass::kInputGrad;
  }

  std::vector<ValueId> append(Op op, std::vector<ValueId> inputs, int block, Pass pass,
                              const std::string& of, std::optional<NodeId> forward) {
    std::vector<TensorType> types;
    types.reserve(inputs.size());
    for (const ValueId input : inputs) types.push_back(type(input));
    const std::vector<TensorType> outputs = infer_types(op, types);
    std::vector<std::string> names(outputs.size(), of + "." + std::string(to_string(op.kind)));
    const NodeId id =
        graph_.add_node(std::move(op), std::move(inputs), outputs, names, block, pass, forward);
    return graph_.node(id).outputs;
  }

  /// Appends the sum of a computed value's gradients. Returns nullopt if it has no gradient.
  std::optional<ValueId> sum_of(ValueId value) {
    const auto found = contributions_.find(value);
    if (found == contributions_.end()) return std::nullopt;
    const int home = graph_.node(*graph_.value(value).producer).block;
    // Sums block by block, so that each block sends one gradient to the block of the producer.
    std::vector<ValueId> sums, of_block;
    for (std::size_t i = 0; i < found->second.size(); ++i) {
      of_block.push_back(found->second[i].gradient);
      if (i + 1 < found->second.size() && found->second[i + 1].block == found->second[i].block)
        continue;
      sums.push_back(add_up(of_block, found->second[i].block, Pass::kInputGrad, value));
      of_block.clear();
    }
    return add_up(sums, home, Pass::kInputGrad, value);
  }

  ValueId add_up(const std::vector<ValueId>& gradients, int block, Pass pass, ValueId of) {
    const std::string name = graph_.value(of).name;
    ValueId sum = gradients[0];
    for (std::size_t i = 1; i < gradients.size(); ++i) {
      sum = append({OpKind::kAdd, {}}, {sum, gradients[i]}, block, pass, name, std::nullopt)[0];
      graph_.mark_gradient(sum, of);
    }
    return sum;
  }

  /// Marks the values that depend on a parameter.
  void find_trained() {
    trained_.assign(graph_.values().size(), false);
    is_parameter_.assign(graph_.values().size(), false);
    for (const Parameter& parameter : graph_.parameters()) {
      trained_[parameter.value.value()] = true;
      is_parameter_[parameter.value.value()] = true;
    }
    for (const Node& node : graph_.nodes()) {
      for (const ValueId input : node.inputs) {
        if (!trained_[input.value()]) continue;
        for (const ValueId output : node.outputs) trained_[output.value()] = true;
      }
    }
  }

  struct Contribution {
    ValueId gradient;
    int block = 0;  ///< Block of the forward node that uses the value.
  };

  Graph graph_;
  std::size_t num_forward_nodes_;
  ValueId loss_;
  std::vector<bool> trained_;       ///< True for forward values that depend on a parameter.
  std::vector<bool> is_parameter_;  ///< True for forward values that are parameters.
  std::map<ValueId, std::vector<Contribution>> contributions_;
  Node current_;  ///< Copy, because appending nodes reallocates the originals.
  NodeId current_id_;
  std::optional<ValueId> output_gradient_;
};

bool is_loss(OpKind kind) { return kind == OpKind::kCrossEntropy || kind == OpKind::kSquaredError; }

void check_loss(const Graph& graph, ValueId loss) {
  if (loss.value() >= graph.values().size())
    throw_error(ErrorCode::kInvalidArgument, "the loss %{} is not a value of this graph", loss);
  const Value& value = graph.value(loss);
  if (!value.producer || !is_loss(graph.node(*value.producer).op.kind)) {
    throw_error(ErrorCode::kInvalidArgument,
                "the loss must be the result of cross_entropy or squared_error, but '{}' {} is not",
                value.name, to_string(value.type));
  }
  for (const Node& node : graph.nodes()) {
    if (node.pass != Pass::kForward)
      throw_error(ErrorCode::kInvalidArgument, "this graph has been differentiated already");
    for (const ValueId input : node.inputs) {
      if (input == loss)
        throw_error(ErrorCode::kInvalidArgument,
                    "the loss '{}' is used by {}; it must be the end of the graph", value.name,
                    to_string(node.op));
    }
  }
}

/// Throws if two parameters share a name, as checkpoints and programs identify parameters by name.
void check_names(const Graph& forward) {
  std::unordered_set<std::string_view> names;
  for (const Parameter& parameter : forward.parameters()) {
    const std::string& name = forward.value(parameter.value).name;
    if (!names.insert(name).second)
      throw_error(ErrorCode::kInvalidArgument, "two parameters are named '{}'", name);
  }
}

}  // namespace

TrainingGraph differentiate(const Graph& forward, ValueId loss) {
  check_names(forward);
  check_loss(forward, loss);
  return Differentiation(forward, loss).run();
}

}  // namespace weft
