#include "core/ops/fusion.h"

#include <algorithm>
#include <map>
#include <optional>

namespace weft {
namespace {

bool contains(const std::vector<std::uint32_t>& tensors, std::uint32_t tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

class FusionFinder {
 public:
  FusionFinder(std::span<const ListedOp> list, const ListedTensors& tensors)
      : list_(list), tensors_(tensors), is_fused_(list.size()) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (const std::uint32_t tensor : list[i].inputs) uses_[tensor].push_back(i);
      for (const std::uint32_t tensor : list[i].outputs) makers_[tensor].push_back(i);
    }
  }

  std::vector<Fusion> find() {
    // Sums first: without them, the gradients of a layer norm are fused at an earlier position.
    for (std::size_t last = 0; last < list_.size(); ++last) {
      if (is(last, OpKind::kAdd)) add(layer_norm_grad_add(last));
    }
    for (std::size_t last = 0; last < list_.size(); ++last) {
      if (list_[last].op == nullptr || is_fused_[last]) continue;
      switch (list_[last].op->kind) {
        case OpKind::kGelu: add(linear_gelu(last)); break;
        case OpKind::kAdd: add(linear_add(last)); break;
        case OpKind::kGeluGrad: add(linear_input_grad_gelu(last)); break;
        case OpKind::kSumLeading: add(linear_weight_grad_sum(last)); break;
        case OpKind::kLayerNormWeightGrad: add(layer_norm_grad(last)); break;
        case OpKind::kCrossEntropyGrad: add(cross_entropy_with_grad(last)); break;
        default: break;
      }
    }
    std::ranges::sort(found_, {}, &Fusion::last);
    return std::move(found_);
  }

 private:
  void add(std::optional<Fusion> fusion) {
    if (!fusion) return;
    for (const std::size_t removed : fusion->removed) is_fused_[removed] = true;
    is_fused_[fusion->last] = true;
    found_.push_back(std::move(*fusion));
  }

  /// Returns the position of the op of this kind that produces the tensor, if it can be delayed
  /// until `second`.
  std::optional<std::size_t> maker(std::uint32_t tensor, OpKind kind, std::size_t second) const {
    const auto found = makers_.find(tensor);
    if (found == makers_.end() || found->second.size() != 1) return std::nullopt;
    const std::size_t first = found->second.front();
    if (first >= second || !is(first, kind) || list_[first].accumulate != 0 ||
        !can_wait(first, second))
      return std::nullopt;
    return first;
  }

  bool is(std::size_t at, OpKind kind) const {
    return list_[at].op != nullptr && list_[at].op->kind == kind && !is_fused_[at];
  }

  bool can_wait(std::size_t first, std::size_t second) const {
    for (std::size_t between = first + 1; between < second; ++between) {
      for (const std::uint32_t tensor : list_[first].outputs) {
        if (contains(list_[between].inputs, tensor) || contains(list_[between].outputs, tensor))
          return false;
      }
      for (const std::uint32_t tensor : list_[first].inputs) {
        if (contains(list_[between].outputs, tensor)) return false;
      }
    }
    return true;
  }

  bool used_by_others(std::uint32_t tensor, std::size_t user) const {
    const std::vector<std::size_t>& uses = uses_.at(tensor);
    return tensors_.used_elsewhere(tensor) ||
           std::any_of(uses.begin(), uses.end(), [&](std::size_t at) { return at != user; });
  }

  std::optional<Fusion> linear_gelu(std::size_t second) const {
    const ListedOp& gelu = list_[second];
    const std::uint32_t h = gelu.inputs[0];
    const auto first = maker(h, OpKind::kLinear, second);
    if (!first || gelu.accumulate != 0 || list_[*first].inputs.size() != 3) return std::nullopt;
    const bool keep = used_by_others(h, second);
    Fusion fusion{{*first},
                  second,
                  {OpKind::kLinearGelu, {{"keep", std::int64_t{keep}}}},
                  list_[*first].inputs,
                  gelu.outputs};
    if (keep) fusion.outputs.push_back(h);
    return fusion;
  }

  /// Returns true if the op writes the sum of two different tensors of one type.
  bool adds_two_tensors(const ListedOp& add) const {
    return add.accumulate == 0 && add.inputs[0] != add.inputs[1] &&
           tensors_.type(add.inputs[0]) == tensors_.type(add.inputs[1]);
  }

  std::optional<Fusion> linear_add(std::size_t second) const {
    const ListedOp& add = list_[second];
    if (!adds_two_tensors(add)) return std::nullopt;
    for (const std::size_t term : {1, 0}) {
      const auto first = maker(add.inputs[term], OpKind::kLinear, second);
      if (!first || used_by_others(add.inputs[term], second)) continue;
      Fusion fusion{{*first}, second, {OpKind::kLinearAdd, {}}, list_[*first].inputs, add.outputs};
      fusion.inputs.insert(fusion.inputs.begin() + 2, add.inputs[1 - term]);
      return fusion;
    }
    return std::nullopt;
  }

  std::optional<Fusion> linear_input_grad_gelu(std::size_t second) const {
    const ListedOp& grad = list_[second];
    const auto first = maker(grad.inputs[1], OpKind::kLinearInputGrad, second);
    if (!first || grad.accumulate != 0 || grad.inputs[0] == grad.inputs[1] ||
        used_by_others(grad.inputs[1], second))
      return std::nullopt;
    Fusion fusion{
        {*first}, second, {OpKind::kLinearInputGradGelu, {}}, list_[*first].inputs, grad.outputs};
    fusion.inputs.push_back(grad.inputs[0]);
    return fusion;
  }

  std::optional<Fusion> linear_weight_grad_sum(std::size_t second) const {
    const ListedOp& sum = list_[second];
    const std::uint32_t dy = sum.inputs[0];
    for (const std::size_t first : uses_.at(dy)) {
      if (first >= second || !is(first, OpKind::kLinearWeightGrad) || list_[first].inputs[1] != dy)
        continue;
      const auto tokens = std::ssize(tensors_.type(list_[first].inputs[0]).shape) - 1;
      if (sum.op->integer("dimensions") != tokens || list_[first].accumulate != sum.accumulate ||
          !can_wait(first, second))
        continue;
      return Fusion{{first},
                    second,
                    {OpKind::kLinearWeightGradSum, {}},
                    list_[first].inputs,
                    {list_[first].outputs[0], sum.outputs[0]},
                    sum.accumulate | sum.accumulate << 1};
    }
    return std::nullopt;
  }

  /// Returns the position of an op with these attributes and inputs that can be delayed until
  /// `last`.
  std::optional<std::size_t> twin(const Op& op, const std::vector<std::uint32_t>& inputs,
                                  std::size_t last) const {
    for (const std::size_t at : uses_.at(inputs[0])) {
      if (at < last && is(at, op.kind) && *list_[at].op == op && list_[at].inputs == inputs &&
          can_wait(at, last))
        return at;
    }
    return std::nullopt;
  }

  std::optional<Fusion> layer_norm_grad_add(std::size_t last) const {
    const ListedOp& sum = list_[last];
    if (!adds_two_tensors(sum)) return std::nullopt;
    for (const std::size_t term : {1, 0}) {
      const auto first = maker(sum.inputs[term], OpKind::kLayerNormInputGrad, last);
      if (!first || used_by_others(sum.inputs[term], last)) continue;
      const ListedOp& grad = list_[*first];
      Fusion fusion{{*first},
                    last,
                    {OpKind::kLayerNormInputGradAdd, grad.op->attributes},
                    grad.inputs,
                    sum.outputs};
      fusion.inputs.push_back(sum.inputs[1 - term]);
      const Op of_weights{OpKind::kLayerNormWeightGrad, grad.op->attributes};
      if (const auto found = twin(of_weights, {grad.inputs[0], grad.inputs[2]}, last)) {
        const ListedOp& weight_grad = list_[*found];
        fusion.op.kind = OpKind::kLayerNormGradAdd;
        fusion.removed.push_back(*found);
        fusion.outputs.insert(fusion.outputs.end(), weight_grad.outputs.begin(),
                              weight_grad.outputs.end());
        fusion.accumulate = weight_grad.accumulate << 1;
      }
      return fusion;
    }
    return std::nullopt;
  }

  std::optional<Fusion> layer_norm_grad(std::size_t last) const {
    const ListedOp& weight_grad = list_[last];
    for (const std::size_t first : uses_.at(weight_grad.inputs[1])) {
      if (first >= last || !is(first, OpKind::kLayerNormInputGrad)) continue;
      const ListedOp& grad = list_[first];
      if (grad.inputs[0] != weight_grad.inputs[0] || grad.inputs[2] != weight_grad.inputs[1] ||
          grad.op->attributes != weight_grad.op->attributes || grad.accumulate != 0 ||
          !can_wait(first, last))
        continue;
      return Fusion{{first},
                    last,
                    {OpKind::kLayerNormGrad, grad.op->attributes},
                    grad.inputs,
                    {grad.outputs[0], weight_grad.outputs[0], weight_grad.outputs[1]},
                    weight_grad.accumulate << 1};
    }
    return std::nullopt;
  }

  std::optional<Fusion> cross_entropy_with_grad(std::size_t last) const {
    const ListedOp& grad = list_[last];
    const auto loss = twin({OpKind::kCrossEntropy, grad.op->attributes}, grad.inputs, last);
    if (!loss || grad.accumulate != 0) return std::nullopt;
    return Fusion{{*loss},
                  last,
                  {OpKind::kCrossEntropyWithGrad, grad.op->attributes},
                  grad.inputs,
                  {grad.outputs[0], list_[*loss].outputs[0]},
                  list_[*loss].accumulate << 1};
  }

  std::span<const ListedOp> list_;
  const ListedTensors& tensors_;
  std::vector<bool> is_fused_;  ///< True if the op is part of a fusion.
  std::map<std::uint32_t, std::vector<std::size_t>> uses_;
  std::map<std::uint32_t, std::vector<std::size_t>> makers_;
  std::vector<Fusion> found_;
};

}  // namespace

OpKind unfused_kind(OpKind kind) {
  switch (kind) {
    case OpKind::kLinearGelu: return OpKind::kGelu;
    case OpKind::kLinearAdd: return OpKind::kAdd;
    case OpKind::kLinearInputGradGelu: return OpKind::kGeluGrad;
    case OpKind::kLinearWeightGradSum: return OpKind::kSumLeading;
    case OpKind::kLayerNormGrad: return OpKind::kLayerNormWeightGrad;
    case OpKind::kLayerNormInputGradAdd:
    case OpKind::kLayerNormGradAdd: return OpKind::kAdd;
    case OpKind::kCrossEntropyWithGrad: return OpKind::kCrossEntropyGrad;
    default: return kind;
  }
}

bool can_end_fusion(OpKind kind) {
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    const auto fused = static_cast<OpKind>(i);
    if (fused != kind && unfused_kind(fused) == kind) return true;
  }
  return false;
}

std::vector<Fusion> find_fusions(std::span<const ListedOp> list, const ListedTensors& tensors) {
  return FusionFinder(list, tensors).find();
}

}  // namespace weft
