#include "mesh/layouts/internal/apply_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "mesh/layouts/feature_kind.h"
#include "mesh/layouts/internal/greedy.h"
#include "mesh/layouts/labels.h"

namespace weft::mesh {
namespace {

/// Builder of the strategy, node by node.
class Application {
 public:
  Application(const MeshGraph& part, const LayoutAxes& axes, GatherFrequency gather)
      : part_(part), graph_(part.graph), axes_(axes), labels_(propagate_labels(part.graph)) {
    result_.gather = gather;
  }

  ShardingStrategy make() {
    find_inputs();
    for (const NodeId id : part_.nodes)
      if (graph_.node(id).pass == Pass::kForward) add(id);
    for (const NodeId id : part_.nodes)
      if (graph_.node(id).pass != Pass::kForward) add(id);
    return std::move(result_);
  }

 private:
  bool splits_features() const {
    const auto splits = [](const LinearAxes& axes) { return !axes.k.empty() || !axes.n.empty(); };
    return splits(axes_.expand) || splits(axes_.contract);
  }
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  const Labels& labels(ValueId id) const { return labels_[id.value()]; }
  /// Returns the last dimension that holds features, if any.
  std::optional<std::size_t> feature_dimension(ValueId id) const {
    for (std::size_t d = labels(id).size(); d-- > 0;)
      if (feature_kind_of(labels(id)[d]) != FeatureKind::kNone) return d;
    return std::nullopt;
  }
  std::optional<std::size_t> dimension(ValueId id, std::string_view label) const {
    const auto at = std::ranges::find(labels(id), label);
    if (at == labels(id).end()) return std::nullopt;
    return at - labels(id).begin();
  }
  const std::vector<int>& features(FeatureKind stream) const {
    return stream == FeatureKind::kResidual ? axes_.contract.n : axes_.expand.n;
  }

  void find_inputs() {
    for (const Parameter& parameter : graph_.parameters()) parameters_.insert(parameter.value);
    for (const NodeId id : part_.nodes) {
      const Node& node = graph_.node(id);
      if (node.pass != Pass::kForward) continue;
      if (node.op.kind == OpKind::kLinear || node.op.kind == OpKind::kLinearInputGrad)
        matrices_.insert(node.inputs[1]);
      if (node.op.kind == OpKind::kEmbedding || node.op.kind == OpKind::kEmbeddingSlice)
        matrices_.insert(node.inputs[0]);
    }
  }

  /// Appends each axis to the first of these dimensions that it still divides.
  void spread(Spec& spec, const Shape& shape, const std::vector<int>& axes,
              const std::vector<std::size_t>& dimensions) const {
    for (const int axis : axes) {
      if (!spec.is_replicated_over(axis)) continue;
      for (const std::size_t d : dimensions) {
        std::vector<int> more = spec.dims[d];
        more.push_back(axis);
        if (shape[d] % num_parts(more, part_.mesh) != 0) continue;
        spec.dims[d] = std::move(more);
        break;
      }
    }
  }

  Spec parameter_home(ValueId id) const {
    Spec spec = Spec::replicated(shape(id).size());
    const auto feature = feature_dimension(id);
    std::vector<std::size_t> order;
    if (matrices_.contains(id)) {
      const FeatureKind in = feature_kind_of(labels(id).front());
      if (in != FeatureKind::kNone && *feature > 0) {
        spec.dims[0] = in == FeatureKind::kResidual ? axes_.expand.k : axes_.contract.k;
        spec.dims[*feature] = features(feature_kind_of(labels(id)[*feature]));
      }
    } else {
      if (feature) {
        spec.dims[*feature] = features(feature_kind_of(labels(id)[*feature]));
        order.push_back(*feature);
      }
      if (!axes_.split_vectors) return spec;
    }
    for (std::size_t d = 0; d < shape(id).size(); ++d) order.push_back(d);
    spread(spec, shape(id), axes_.parameter_axes, order);
    return spec;
  }

  /// Returns the spec in which an activation is kept: split over the axes that compute it, then
  /// over all remaining ones.
  std::optional<Spec> activation_home(ValueId id) const {
    const auto batch = dimension(id, "batch");
    const auto feature = feature_dimension(id);
    if (!batch || !feature || !splits_features()) return std::nullopt;
    // Products per slice of a vocabulary stay on the device that has the slice.
    if (std::ranges::count_if(labels(id), [](const std::string& label) {
          return feature_kind_of(label) != FeatureKind::kNone;
        }) > 1)
      return std::nullopt;
    Spec spec = Spec::replicated(shape(id).size());
    const FeatureKind stream = feature_kind_of(labels(id)[*feature]);
    spec.dims[*batch] = axes_.tokens;
    spec.dims[*feature] = features(stream);
    std::vector<std::size_t> order{*batch};
    if (stream == FeatureKind::kResidual) {
      if (!axes_.split_residual) return spec;
      if (const auto sequence = dimension(id, "sequence")) order.push_back(*sequence);
    }
    std::vector<int> left;
    for (std::size_t a = 0; a < part_.mesh.axes().size(); ++a) {
      const auto axis = static_cast<int>(a);
      if (part_.mesh.axes()[a].size > 1 && spec.is_replicated_over(axis)) left.push_back(axis);
    }
    spread(spec, shape(id), left, order);
    for (const int axis : left) {
      if (spec.is_replicated_over(axis)) {
        const std::int64_t split =
            num_parts(axes_.tokens, part_.mesh) * num_parts(left, part_.mesh);
        const std::int64_t rows = shape(id)[*batch];
        throw_error(ErrorCode::kInvalidConfig,
                    "'{}' {} is split {} ways by batch on mesh {}, but a microbatch has {} rows, "
                    "which is no multiple of that; use {} rows",
                    graph_.value(id).name, weft::to_string(shape(id)), split, to_string(part_.mesh),
                    rows, (rows + split - 1) / split * split);
      }
    }
    return spec;
  }

  /// Returns the spec in which the value is kept on this mesh, or nothing if it stays as its op
  /// makes it.
  std::optional<Spec> home_of(ValueId id) const {
    if (parameters_.contains(id)) return parameter_home(id);
    const Value& value = graph_.value(id);
    if (value.gradient_of) {
      // The compiler brings a gradient home when its last term is added.
      if (parameters_.contains(*value.gradient_of)) return std::nullopt;
      return activation_home(*value.gradient_of);
    }
    if (value.producer && graph_.node(*value.producer).pass != Pass::kForward) return std::nullopt;
    return activation_home(id);
  }

  /// Returns a spec split by tokens, for data and for received values that are not activations.
  Spec by_tokens(ValueId id) const {
    Spec spec = Spec::replicated(shape(id).size());
    if (const auto batch = dimension(id, "batch")) spec.dims[*batch] = axes_.tokens;
    return spec;
  }

  /// Returns the spec in which ops find the value.
  const Spec& current(ValueId id) {
    const auto found = current_.find(id);
    if (found != current_.end()) return found->second;
    const std::optional<Spec> home = home_of(id);
    Spec spec = home ? *home : by_tokens(id);
    result_.storage_specs[id] = spec;
    return current_[id] = std::move(spec);
  }

  /// Shards x[..., k] w[k, n...] -> y[..., n...]; w is w[n, k] if `transposed`.
  OpSharding linear(const Node& node, const FactorSignature& signature, bool transposed) const {
    OpSharding sharding{std::vector<std::vector<int>>(signature.factors.size()), {}};
    const ValueId x = node.inputs[0], w = node.inputs[1], y = node.outputs[0];
    if (const auto batch = dimension(x, "batch"))
      sharding.axes[signature.inputs[0][*batch]] = axes_.tokens;
    if (!splits_features()) return sharding;
    const std::vector<int>& of_w = signature.inputs[1];
    const std::size_t k = transposed ? of_w.size() - 1 : 0;
    const auto out = feature_dimension(y);
    const FeatureKind from = feature_kind_of(labels(w)[k]);
    const FeatureKind to = out ? feature_kind_of(labels(y)[*out]) : FeatureKind::kNone;
    if (from == FeatureKind::kNone || to == FeatureKind::kNone || from == to)
      throw_error(ErrorCode::kInvalidConfig,
                  "the linear '{}' maps '{}' to '{}', but this layout supports only linears from "
                  "'embed' to 'heads', 'mlp' or 'vocab', or back; use rules or fsdp for this model",
                  graph_.value(y).name, labels(w)[k], out ? labels(y)[*out] : "");
    const LinearAxes& axes = from == FeatureKind::kResidual ? axes_.expand : axes_.contract;
    sharding.axes[of_w[k]] = axes.k;
    sharding.axes[signature.outputs[0][*out]] = axes.n;
    return sharding;
  }

  /// Splits each factor like the first tensor that has it: outputs with a home first, then computed
  /// inputs, then data.
  OpSharding as_tensors(const Node& node, const FactorSignature& signature) {
    OpSharding sharding{std::vector<std::vector<int>>(signature.factors.size()), {}};
    std::vector<bool> found(signature.factors.size(), false);
    std::set<int> used;
    const auto take = [&](const Spec& spec, const std::vector<int>& factors) {
      for (std::size_t d = 0; d < factors.size(); ++d) {
        if (found[factors[d]]) continue;
        found[factors[d]] = true;
        for (const int axis : spec.dims[d])
          if (used.insert(axis).second) sharding.axes[factors[d]].push_back(axis);
      }
    };
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (const auto home = home_of(node.outputs[i])) take(*home, signature.outputs[i]);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (graph_.value(input).producer) take(current(input), signature.inputs[i]);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      const bool is_data = !graph_.value(input).producer && !parameters_.contains(input);
      if (is_data) take(by_tokens(input), signature.inputs[i]);
    }
    return sharding;
  }

  /// Shards the merge of a row's slices: each device merges whole rows. The slices' axes split rows
  /// as far as they divide, and are gathered otherwise.
  OpSharding merge(const Node& node, const FactorSignature& signature) {
    const std::vector<int>& factors = signature.inputs[0];
    const std::size_t slices = factors.size() - 2;
    Spec spec = current(node.inputs[0]);
    const std::vector<int> axes = std::exchange(spec.dims[slices], {});
    std::vector<std::size_t> rows;
    for (std::size_t d = 0; d < slices; ++d) rows.push_back(d);
    spread(spec, shape(node.inputs[0]), axes, rows);
    OpSharding sharding{std::vector<std::vector<int>>(signature.factors.size()), {}};
    for (const std::size_t d : rows) sharding.axes[factors[d]] = spec.dims[d];
    return sharding;
  }

  /// Shards a lookup of ids[tokens...] in table[vocabulary, width] like a contract of one-hot rows.
  OpSharding select(const Node& node, const FactorSignature& signature) const {
    OpSharding sharding{std::vector<std::vector<int>>(signature.factors.size()), {}};
    if (const auto batch = dimension(node.inputs[1], "batch"))
      sharding.axes[signature.inputs[1][*batch]] = axes_.tokens;
    sharding.axes[signature.inputs[0][0]] = axes_.contract.k;
    sharding.axes[signature.inputs[0][1]] = axes_.contract.n;
    return sharding;
  }

  /// Shards an op over a vocabulary's slices, each on the device that has it. `weight`: index of
  /// the weight among the inputs; its other dimension stays whole.
  OpSharding by_slices(const Node& node, const FactorSignature& signature,
                       std::size_t weight) const {
    OpSharding sharding{std::vector<std::vector<int>>(signature.factors.size()), {}};
    if (const auto batch = dimension(node.inputs[1 - weight], "batch"))
      sharding.axes[signature.inputs[1 - weight][*batch]] = axes_.tokens;
    if (const auto slices = dimension(node.inputs[weight], kVocabulary))
      sharding.axes[signature.inputs[weight][*slices]] = axes_.expand.n;
    return sharding;
  }

  OpSharding sum_of_gradients(const Node& node, const FactorSignature& signature) {
    std::vector<Spec> specs;
    for (const ValueId input : node.inputs) specs.push_back(current(input));
    return choose_sharding(signature, input_types(graph_, node), specs, part_.mesh,
                           std::string(to_string(node.op.kind)));
  }

  OpSharding sharding_of(NodeId id, const FactorSignature& signature) {
    const Node& node = graph_.node(id);
    // This op combines slices, which its forward linear does not have, so it does not inherit.
    if (node.op.kind == OpKind::kCrossEntropyCombinedInputGrad) return as_tensors(node, signature);
    if (node.forward) {
      const auto forward = result_.ops.find(*node.forward);
      WEFT_CHECK(forward != result_.ops.end(), "node {} is not where its forward node is", id);
      return inherited(graph_, node, forward->second);
    }
    switch (node.op.kind) {
      case OpKind::kLinear: return linear(node, signature, false);
      case OpKind::kLinearInputGrad: return linear(node, signature, true);
      case OpKind::kEmbedding:
      case OpKind::kEmbeddingSlice: return select(node, signature);
      case OpKind::kLinearSliceInputGrad: return by_slices(node, signature, 1);
      case OpKind::kTargetRows: return by_slices(node, signature, 0);
      case OpKind::kLayerNormStatistics:
      case OpKind::kCrossEntropyStatistics: return merge(node, signature);
      case OpKind::kAdd:
        // Sum of the terms of a parameter's gradient.
        if (node.pass == Pass::kWeightGrad) return sum_of_gradients(node, signature);
        break;
      case OpKind::kConvolution:
        if (splits_features())
          throw_error(ErrorCode::kInvalidConfig,
                      "it does not support convolutions such as '{}'; use rules or fsdp",
                      graph_.value(node.outputs[0]).name);
        break;
      default: break;
    }
    return as_tensors(node, signature);
  }

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    const FactorSignature signature = factor_signature(graph_, node);
    OpSharding sharding = sharding_of(id, signature);
    check_op_sharding(part_, id, sharding);
    const OpSpecs specs = specs_of(signature, sharding);
    for (const ValueId input : node.inputs) current(input);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      Spec spec = specs.outputs[i];
      if (const auto home = home_of(output)) {
        result_.storage_specs[output] = *home;
        spec = *home;
      }
      current_[output] = std::move(spec);
    }
    result_.ops[id] = std::move(sharding);
  }

  const MeshGraph& part_;
  const Graph& graph_;
  const LayoutAxes& axes_;
  const std::vector<Labels> labels_;
  std::set<ValueId> parameters_;
  /// Parameters that linears multiply by or embeddings look up.
  std::set<ValueId> matrices_;
  std::map<ValueId, Spec> current_;
  ShardingStrategy result_;
};

}  // namespace

ShardingStrategy apply_layout(const MeshGraph& part, const LayoutAxes& axes,
                              GatherFrequency gather) {
  return Application(part, axes, gather).make();
}

}  // namespace weft::mesh
