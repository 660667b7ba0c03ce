#include "mesh/layouts/split_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/ops/op_definition.h"
#include "mesh/layouts/feature_kind.h"
#include "mesh/layouts/internal/output_layer.h"
#include "mesh/layouts/labels.h"

namespace weft::mesh {
namespace {

/// Copier of a graph, node by node. Used once.
class Splitter {
 public:
  Splitter(const TrainingGraph& model, const std::vector<FeatureSplits>& by_block)
      : model_(model),
        old_(model.graph),
        by_block_(by_block),
        labels_(propagate_labels(model.graph)) {
    for (const Parameter& parameter : old_.parameters()) parameters_[parameter.value] = &parameter;
    for (const Input& input : old_.inputs()) inputs_[input.value] = &input;
    vocabulary_ways_ = ways_of_vocabularies();
    if (std::ranges::any_of(by_block, &FeatureSplits::early_input_grad)) {
      const OutputLayer layer = output_layer(model);
      if (layer.input_grad && by_block.at(old_.node(layer.loss).block).early_input_grad)
        early_ = layer;
    }
  }

  TrainingGraph run() {
    for (std::size_t i = 0; i < old_.values().size(); ++i) {
      const ValueId id(i);
      const Value& value = old_.values()[i];
      if (!value.producer) {
        add_source(id);
      } else if (old_.node(*value.producer).outputs.front() == id) {
        add_node(*value.producer);
      }
    }
    TrainingGraph result{{}, at(model_.loss), {}};
    for (const Gradient& gradient : model_.gradients)
      result.gradients.push_back({at(gradient.parameter), at(gradient.gradient)});
    result.graph = std::move(new_);
    return result;
  }

 private:
  ValueId at(ValueId old) const { return values_.at(old); }

  void add_source(ValueId id) {
    const Value& value = old_.value(id);
    if (const auto found = parameters_.find(id); found != parameters_.end()) {
      const Parameter& parameter = *found->second;
      values_[id] =
          new_.add_padded_parameter(value.name, padded(value.type, parameter.axes), parameter.shape,
                                    parameter.initializer, parameter.axes, parameter.decay);
    } else {
      values_[id] = new_.add_input(value.name, value.type, inputs_.at(id)->axes);
    }
  }

  void add_node(NodeId id) {
    const Node& node = old_.node(id);
    const FeatureSplits& splits = by_block_.at(node.block);
    if (early_ && id == early_->input_grad && !slice_terms_.empty()) return combine_slices(id);
    switch (node.op.kind) {
      case OpKind::kLayerNorm:
        if (const auto ways = ways_of(node.inputs[0], splits); ways > 1)
          return split_layer_norm(id, ways);
        break;
      case OpKind::kLayerNormInputGrad:
      case OpKind::kLayerNormWeightGrad:
        if (const auto split = split_.find(*node.forward); split != split_.end())
          return node.op.kind == OpKind::kLayerNormInputGrad ? split_input_grad(id, split->second)
                                                             : split_weight_grad(id, split->second);
        break;
      case OpKind::kCrossEntropy:
        if (const auto ways = ways_of(node.inputs[0], splits);
            ways > 1 || is_padded(node.inputs[0]))
          return split_cross_entropy(id, ways);
        break;
      case OpKind::kCrossEntropyGrad:
        if (const auto split = split_.find(*node.forward); split != split_.end())
          return split_cross_entropy_grad(id, split->second);
        break;
      case OpKind::kEmbedding:
        if (splits.rows > 1 || is_padded(node.inputs[0])) return split_embedding(id);
        break;
      case OpKind::kEmbeddingGrad:
        if (const auto split = split_.find(*node.forward); split != split_.end())
          return split_embedding_grad(id);
        break;
      default: break;
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(at(input));
    finish(id, emit(id, node.op, std::move(inputs)));
  }

  /// Returns the ways in which the value's last dimension is split.
  std::int64_t ways_of(ValueId id, const FeatureSplits& splits) const {
    switch (feature_kind_of(labels_[id.value()].back())) {
      case FeatureKind::kNone: return 1;
      case FeatureKind::kResidual: return splits.residual;
      case FeatureKind::kHidden: return splits.hidden;
    }
    return 1;
  }

  /// Returns the number of which every vocabulary's padded size is a multiple, so that blocks that
  /// share a vocabulary agree on its size.
  std::int64_t ways_of_vocabularies() const {
    std::int64_t ways = 1;
    for (const Node& node : old_.nodes()) {
      const FeatureSplits& splits = by_block_.at(node.block);
      for (const ValueId input : node.inputs) {
        const auto found = parameters_.find(input);
        if (found == parameters_.end() ||
            std::ranges::find(found->second->axes, kVocabulary) == found->second->axes.end())
          continue;
        ways = std::lcm(ways, node.op.kind == OpKind::kEmbedding ? splits.rows : splits.hidden);
      }
    }
    return ways;
  }

  TensorType padded(TensorType type, const std::vector<std::string>& axes) const {
    for (std::size_t d = 0; d < axes.size(); ++d)
      if (axes[d] == kVocabulary)
        type.shape[d] =
            (type.shape[d] + vocabulary_ways_ - 1) / vocabulary_ways_ * vocabulary_ways_;
    return type;
  }
  bool is_padded(ValueId old) const {
    return new_.value(at(old)).type.shape != old_.value(old).type.shape;
  }

  /// Returns the heads of the attention whose output has this width, or 1 if there is none.
  std::int64_t heads_of_width(std::int64_t width) const {
    for (const Node& node : old_.nodes())
      if (node.op.kind == OpKind::kAttention &&
          old_.value(node.outputs.front()).type.shape.back() == width)
        return width / node.op.integer("head_dim");
    return 1;
  }

  std::int64_t slice_of_width(std::int64_t width, std::int64_t ways) const {
    if (width % ways == 0) return width / ways;
    const std::int64_t heads = heads_of_width(width), unit = std::lcm(ways, heads);
    throw Error(
        ErrorCode::kInvalidConfig,
        fmt::format("a layer norm's width of {} cannot be split evenly {} ways; the next width "
                    "that can{} is {}",
                    width, ways, heads > 1 ? fmt::format(", and that {} heads divide,", heads) : "",
                    (width + unit - 1) / unit * unit))
        .at("layout");
  }

  /// Adds a node in place of an old one.
  NodeId emit(NodeId old, Op op, std::vector<ValueId> inputs, const std::string& suffix = "") {
    return emit(old, old_.node(old).pass, std::move(op), std::move(inputs), suffix);
  }
  NodeId emit(NodeId old, Pass pass, Op op, std::vector<ValueId> inputs,
              const std::string& suffix = "") {
    const Node& node = old_.node(old);
    std::vector<TensorType> types;
    for (const ValueId input : inputs) types.push_back(new_.value(input).type);
    const std::vector<TensorType> outputs = infer_types(op, types);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::size_t named = std::min(i, node.outputs.size() - 1);
      names.push_back(old_.value(node.outputs[named]).name + suffix);
    }
    std::optional<NodeId> forward;
    if (node.forward) forward = nodes_.at(*node.forward);
    return new_.add_node(std::move(op), std::move(inputs), outputs, names, node.block, pass,
                         forward);
  }
  ValueId result(NodeId node) const { return new_.node(node).outputs.front(); }

  /// Records that `last` computes the outputs of the old node.
  void finish(NodeId old, NodeId last) { finish(old, last, last); }
  /// `heir`: forward node from which gradients inherit.
  void finish(NodeId old, NodeId last, NodeId heir) {
    const Node& node = old_.node(old);
    nodes_[old] = heir;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = new_.node(last).outputs[i];
      values_[node.outputs[i]] = output;
      if (const auto of = old_.value(node.outputs[i]).gradient_of)
        new_.mark_gradient(output, at(*of));
    }
  }

  void split_layer_norm(NodeId id, std::int64_t ways) {
    const Node& node = old_.node(id);
    const ValueId x = at(node.inputs[0]);
    const std::int64_t width = slice_of_width(row_size(x), ways);
    const NodeId moments =
        emit(id, {OpKind::kLayerNormMoments, {{"slice_width", width}}}, {x}, ".moments");
    const NodeId statistics = emit(id,
                                   {OpKind::kLayerNormStatistics,
                                    {{"slice_width", width}, {"epsilon", node.op.real("epsilon")}}},
                                   {result(moments)}, ".statistics");
    split_[id] = result(statistics);
    finish(id, emit(id, {OpKind::kLayerNormApply, {}},
                    {x, result(statistics), at(node.inputs[1]), at(node.inputs[2])}));
  }

  void split_input_grad(NodeId id, ValueId statistics) {
    const Node& node = old_.node(id);
    const ValueId x = at(node.inputs[0]), gamma = at(node.inputs[1]), dy = at(node.inputs[2]);
    const NodeId sums =
        emit(id, {OpKind::kLayerNormGradientSums, {}}, {x, statistics, gamma, dy}, ".sums");
    finish(id, emit(id, {OpKind::kLayerNormApplyInputGrad, {{"width", row_size(x)}}},
                    {x, statistics, gamma, dy, result(sums)}));
  }

  void split_weight_grad(NodeId id, ValueId statistics) {
    const Node& node = old_.node(id);
    finish(id, emit(id, {OpKind::kLayerNormApplyWeightGrad, {}},
                    {at(node.inputs[0]), statistics, at(node.inputs[1])}));
  }

  /// Returns the attributes of an op that knows its place in the vocabulary.
  static std::vector<std::pair<std::string, Attribute>> located(std::int64_t size,
                                                                std::string_view name,
                                                                std::int64_t without_padding) {
    return {{"first", std::int64_t{0}}, {"count", size}, {std::string(name), without_padding}};
  }

  void split_cross_entropy(NodeId id, std::int64_t ways) {
    const Node& node = old_.node(id);
    const ValueId logits = at(node.inputs[0]), targets = at(node.inputs[1]);
    const std::int64_t columns = row_size(logits);
    Op of_slices{OpKind::kCrossEntropyMoments,
                 located(columns, "columns", old_row_size(node.inputs[0]))};
    of_slices.attributes.emplace_back("slice_width", columns / ways);
    const NodeId moments = emit(id, std::move(of_slices), {logits, targets}, ".moments");
    // Comes before the statistics, which wait for all devices' moments, because it does not wait.
    if (early_ && id == early_->loss) multiply_slices(result(moments), columns / ways);
    const NodeId statistics =
        emit(id, {OpKind::kCrossEntropyStatistics, {}}, {result(moments)}, ".statistics");
    split_[id] = result(statistics);
    std::vector<ValueId> inputs{result(statistics)};
    if (node.inputs.size() == 3) inputs.push_back(at(node.inputs[2]));
    const NodeId loss =
        emit(id, {OpKind::kCrossEntropyOfStatistics, {{"scale", node.op.real("scale")}}},
             std::move(inputs));
    finish(id, loss, moments);
  }

  void split_cross_entropy_grad(NodeId id, ValueId statistics) {
    const Node& node = old_.node(id);
    const ValueId logits = at(node.inputs[0]);
    std::vector<ValueId> inputs{logits, at(node.inputs[1]), statistics};
    if (node.inputs.size() == 3) inputs.push_back(at(node.inputs[2]));
    Op op{OpKind::kCrossEntropyApplyGrad,
          located(row_size(logits), "columns", old_row_size(node.inputs[0]))};
    op.attributes.emplace_back("scale", node.op.real("scale"));
    // Only the gradient of the weights needs it if the input's gradient was prepared.
    const bool is_early = early_ && id == early_->loss_grad;
    finish(id,
           emit(id, is_early ? Pass::kWeightGrad : node.pass, std::move(op), std::move(inputs)));
  }

  /// Adds the forward part of the gradient of the last linear's input: see
  /// split_cross_entropy_input_grad.cc (core/ops).
  void multiply_slices(ValueId moments, std::int64_t slice_width) {
    const Node& loss = old_.node(early_->loss);
    const Node& linear = old_.node(early_->linear);
    const ValueId logits = at(loss.inputs[0]), weights = at(linear.inputs[1]);
    const std::pair<std::string, Attribute> width{"slice_width", slice_width};
    const std::pair<std::string, Attribute> transposed{
        "transposed", std::int64_t{linear.op.kind == OpKind::kLinearInputGrad}};
    Op op{OpKind::kCrossEntropyNumerators,
          located(row_size(logits), "columns", old_row_size(loss.inputs[0]))};
    op.attributes.push_back(width);
    const NodeId numerators = emit(early_->loss, op, {logits, moments}, ".numerators");
    const NodeId products = emit(early_->loss, {OpKind::kLinearSliceInputGrad, {width, transposed}},
                                 {result(numerators), weights}, ".slice_input_grad");
    op.kind = OpKind::kTargetRows;
    op.attributes.push_back(transposed);
    const NodeId rows =
        emit(early_->loss, std::move(op), {weights, at(loss.inputs[1])}, ".target_rows");
    slice_terms_ = {moments, result(products), result(rows)};
  }

  /// Replaces the linear's input gradient.
  void combine_slices(NodeId id) {
    const Node& loss = old_.node(early_->loss);
    std::vector<ValueId> inputs = slice_terms_;
    inputs.insert(inputs.begin() + 1, split_.at(early_->loss));
    if (loss.inputs.size() == 3) inputs.push_back(at(loss.inputs[2]));
    finish(id,
           emit(id, {OpKind::kCrossEntropyCombinedInputGrad, {{"scale", loss.op.real("scale")}}},
                std::move(inputs)));
  }

  void split_embedding(NodeId id) {
    const Node& node = old_.node(id);
    const ValueId table = at(node.inputs[0]);
    const std::int64_t rows = new_.value(table).type.shape.front();
    const std::int64_t real = old_.value(node.inputs[0]).type.shape.front();
    split_[id] = table;
    finish(id, emit(id, {OpKind::kEmbeddingSlice, located(rows, "rows", real)},
                    {table, at(node.inputs[1])}));
  }

  void split_embedding_grad(NodeId id) {
    const Node& node = old_.node(id);
    const std::int64_t rows = new_.value(split_.at(*node.forward)).type.shape.front();
    finish(id,
           emit(id, {OpKind::kEmbeddingSliceGrad, located(rows, "rows", node.op.integer("rows"))},
                {at(node.inputs[0]), at(node.inputs[1])}));
  }

  std::int64_t row_size(ValueId id) const { return new_.value(id).type.shape.back(); }
  std::int64_t old_row_size(ValueId id) const { return old_.value(id).type.shape.back(); }

  const TrainingGraph& model_;
  const Graph& old_;
  const std::vector<FeatureSplits>& by_block_;
  const std::vector<Labels> labels_;
  std::int64_t vocabulary_ways_ = 1;
  std::map<ValueId, const Parameter*> parameters_;
  std::map<ValueId, const Input*> inputs_;
  Graph new_;
  std::map<ValueId, ValueId> values_;  ///< New value by old value.
  /// New by old node; of several, the one from which gradients inherit.
  std::map<NodeId, NodeId> nodes_;
  /// Split forward nodes with their statistics (of an embedding, its table).
  std::map<NodeId, ValueId> split_;
  /// Output layer whose input's gradient is prepared in forward (FeatureSplits).
  std::optional<OutputLayer> early_;
  std::vector<ValueId> slice_terms_;  ///< Moments, products and target rows of `early_`.
};

}  // namespace

TrainingGraph split_graph(const TrainingGraph& model, const std::vector<FeatureSplits>& by_block) {
  return Splitter(model, by_block).run();
}

}  // namespace weft::mesh
