#include "core/ops/fusion.h"

#include <algorithm>
#include <map>
#include <optional>

namespace weft {
namespace {

bool contains(const std::vector<std::uint32_t>& tensors, std::uint32_t tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

class Finder {
 public:
  Finder(std::span<const ListedOp> list, const ListedTensors& tensors)
      : list_(list), tensors_(tensors), is_fused_(list.size()) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (const std::uint32_t tensor : list[i].inputs) uses_[tensor].push_back(i);
      for (const std::uint32_t tensor : list[i].outputs) makers_[tensor].push_back(i);
    }
  }

  std::vector<Fusion> find() {
    for (std::size_t second = 0; second < list_.size(); ++second) {
      if (list_[second].op == nullptr) continue;
      std::optional<Fusion> fusion;
      switch (list_[second].op->kind) {
        case OpKind::kGelu: fusion = linear_gelu(second); break;
        case OpKind::kAdd: fusion = linear_add(second); break;
        case OpKind::kGeluGrad: fusion = linear_input_grad_gelu(second); break;
        case OpKind::kSumLeading: fusion = linear_weight_grad_sum(second); break;
        default: break;
      }
      if (!fusion) continue;
      is_fused_[fusion->first] = true;
      found_.push_back(std::move(*fusion));
    }
    return std::move(found_);
  }

 private:
  /// Returns the position of the op of this kind that produces the tensor, if it can be delayed
  /// until `second`.
  std::optional<std::size_t> maker(std::uint32_t tensor, OpKind kind, std::size_t second) const {
    const auto found = makers_.find(tensor);
    if (found == makers_.end() || found->second.size() != 1) return std::nullopt;
    const std::size_t first = found->second.front();
    if (first >= second || !is(first, kind) || list_[first].accumulate || !can_wait(first, second))
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
    if (!first || gelu.accumulate || list_[*first].inputs.size() != 3) return std::nullopt;
    const bool keep = used_by_others(h, second);
    Fusion fusion{*first,
                  second,
                  {OpKind::kLinearGelu, {{"keep", std::int64_t{keep}}}},
                  list_[*first].inputs,
                  gelu.outputs};
    if (keep) fusion.outputs.push_back(h);
    return fusion;
  }

  std::optional<Fusion> linear_add(std::size_t second) const {
    const ListedOp& add = list_[second];
    if (add.accumulate || tensors_.type(add.inputs[0]) != tensors_.type(add.inputs[1]) ||
        add.inputs[0] == add.inputs[1])
      return std::nullopt;
    for (const std::size_t term : {1, 0}) {
      const auto first = maker(add.inputs[term], OpKind::kLinear, second);
      if (!first || used_by_others(add.inputs[term], second)) continue;
      Fusion fusion{*first, second, {OpKind::kLinearAdd, {}}, list_[*first].inputs, add.outputs};
      fusion.inputs.insert(fusion.inputs.begin() + 2, add.inputs[1 - term]);
      return fusion;
    }
    return std::nullopt;
  }

  std::optional<Fusion> linear_input_grad_gelu(std::size_t second) const {
    const ListedOp& grad = list_[second];
    const auto first = maker(grad.inputs[1], OpKind::kLinearInputGrad, second);
    if (!first || grad.accumulate || grad.inputs[0] == grad.inputs[1] ||
        used_by_others(grad.inputs[1], second))
      return std::nullopt;
    Fusion fusion{
        *first, second, {OpKind::kLinearInputGradGelu, {}}, list_[*first].inputs, grad.outputs};
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
      return Fusion{first,
                    second,
                    {OpKind::kLinearWeightGradSum, {}},
                    list_[first].inputs,
                    {list_[first].outputs[0], sum.outputs[0]}};
    }
    return std::nullopt;
  }

  std::span<const ListedOp> list_;
  const ListedTensors& tensors_;
  std::vector<bool> is_fused_;  ///< True if the op is the first of a pair.
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
    default: return kind;
  }
}

std::vector<Fusion> find_fusions(std::span<const ListedOp> list, const ListedTensors& tensors) {
  return Finder(list, tensors).find();
}

}  // namespace weft
