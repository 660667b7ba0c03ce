#include "mesh/layouts/separate_vocabulary.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mesh/layouts/internal/output_layer.h"
#include "mesh/layouts/labels.h"

namespace weft::mesh {
namespace {

/// Copier of a graph into other blocks. Used once.
class Separation {
 public:
  explicit Separation(const TrainingGraph& model)
      : model_(model), old_(model.graph), output_(output_layer(model)) {
    for (const Parameter& parameter : old_.parameters()) parameters_[parameter.value] = &parameter;
    for (const Input& input : old_.inputs()) inputs_[input.value] = &input;
    has_embedding_ = std::ranges::any_of(
        old_.nodes(), [&](const Node& node) { return is_token_embedding(node); });
    place_nodes();
  }

  SeparatedVocabulary run() {
    for (std::size_t i = 0; i < old_.values().size(); ++i) {
      const ValueId id(i);
      const Value& value = old_.value(id);
      if (!value.producer) {
        add_source(id);
      } else if (old_.node(*value.producer).outputs.front() == id) {
        if (!is_sum_of_blocks(*value.producer)) add_node(*value.producer);
      }
    }
    SeparatedVocabulary result{{{}, values_.at(model_.loss), {}}, has_embedding_, true};
    for (const Gradient& gradient : model_.gradients) add_gradient(gradient, result.graph);
    result.graph.graph = std::move(new_);
    return result;
  }

 private:
  bool is_token_embedding(const Node& node) const {
    if (node.op.kind != OpKind::kEmbedding || !inputs_.contains(node.inputs[1])) return false;
    const auto table = parameters_.find(node.inputs[0]);
    return table != parameters_.end() && table->second->axes.front() == kVocabulary;
  }
  static bool is_sum(const Node& node) {
    return node.op.kind == OpKind::kAdd && node.pass != Pass::kForward && !node.forward;
  }
  /// Returns whether the node sums a parameter's gradients whose terms are now in several blocks.
  bool is_sum_of_blocks(NodeId id) const { return !block_[id.value()]; }

  void place_nodes() {
    const int last = old_.num_blocks() + (has_embedding_ ? 1 : 0);
    for (std::size_t i = 0; i < old_.nodes().size(); ++i) {
      const Node& node = old_.nodes()[i];
      std::optional<int> block = node.block + (has_embedding_ ? 1 : 0);
      if (is_token_embedding(node)) {
        block = 0;
      } else if (NodeId(i) == output_.linear || NodeId(i) == output_.loss) {
        block = last;
      } else if (node.forward) {
        block = block_[node.forward->value()];
      } else if (is_sum(node)) {
        block = block_of_sum(node);
      }
      block_.push_back(block);
    }
  }

  /// Places a sum as differentiate() (core/autodiff) does: terms of one block are added there,
  /// others where the value is computed. Returns nothing if terms of a parameter's gradient are in
  /// several blocks.
  std::optional<int> block_of_sum(const Node& node) const {
    const std::optional<int> first = block_of_value(node.inputs[0]);
    if (first == block_of_value(node.inputs[1])) return first;
    const std::optional<ValueId> of = old_.value(node.outputs[0]).gradient_of;
    return of ? block_of_value(*of) : std::nullopt;
  }
  std::optional<int> block_of_value(ValueId id) const {
    const auto producer = old_.value(id).producer;
    return producer ? block_[producer->value()] : std::nullopt;
  }

  void add_source(ValueId id) {
    const Value& value = old_.value(id);
    if (const auto found = parameters_.find(id); found != parameters_.end()) {
      const Parameter& parameter = *found->second;
      values_[id] =
          new_.add_padded_parameter(value.name, value.type, parameter.shape, parameter.initializer,
                                    parameter.axes, parameter.decay);
    } else {
      values_[id] = new_.add_input(value.name, value.type, inputs_.at(id)->axes);
    }
  }

  void add_node(NodeId id) {
    const Node& node = old_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(values_.at(input));
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) {
      types.push_back(old_.value(output).type);
      names.push_back(old_.value(output).name);
    }
    std::optional<NodeId> forward;
    if (node.forward) forward = nodes_.at(*node.forward);
    const NodeId added = new_.add_node(node.op, std::move(inputs), types, names,
                                       *block_[id.value()], node.pass, forward);
    nodes_[id] = added;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = new_.node(added).outputs[i];
      values_[node.outputs[i]] = output;
      if (const auto of = old_.value(node.outputs[i]).gradient_of)
        new_.mark_gradient(output, values_.at(*of));
    }
  }

  /// Adds one gradient per block that has terms of it.
  void add_gradient(const Gradient& gradient, TrainingGraph& to) {
    const ValueId parameter = values_.at(gradient.parameter);
    std::map<int, ValueId> sums;
    add_terms(gradient.gradient, parameter, sums);
    for (const auto& [block, sum] : sums) to.gradients.push_back({parameter, sum});
  }
  void add_terms(ValueId old, ValueId parameter, std::map<int, ValueId>& sums) {
    const NodeId producer = *old_.value(old).producer;
    if (is_sum_of_blocks(producer)) {
      for (const ValueId term : old_.node(producer).inputs) add_terms(term, parameter, sums);
      return;
    }
    const int block = *block_[producer.value()];
    const auto [sum, is_first] = sums.emplace(block, values_.at(old));
    if (is_first) return;
    const Value& value = new_.value(sum->second);
    const NodeId added = new_.add_node({OpKind::kAdd, {}}, {sum->second, values_.at(old)},
                                       {value.type}, {value.name}, block, Pass::kWeightGrad);
    sum->second = new_.node(added).outputs[0];
    new_.mark_gradient(sum->second, parameter);
  }

  const TrainingGraph& model_;
  const Graph& old_;
  const OutputLayer output_;
  std::map<ValueId, const Parameter*> parameters_;
  std::map<ValueId, const Input*> inputs_;
  bool has_embedding_ = false;
  std::vector<std::optional<int>> block_;  ///< New block by old node.
  Graph new_;
  std::map<ValueId, ValueId> values_;  ///< New value by old value.
  std::map<NodeId, NodeId> nodes_;     ///< New node by old node.
};

}  // namespace

SeparatedVocabulary separate_vocabulary(const TrainingGraph& model) {
  return Separation(model).run();
}

}  // namespace weft::mesh
