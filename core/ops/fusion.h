#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/graph/op.h"
#include "core/tensor/shape.h"

namespace weft {

/// Entry in a list of ops run in sequence on numbered tensors. An entry without an op is other work
/// on tensors, such as a transfer.
struct ListedOp {
  const Op* op = nullptr;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  std::uint32_t accumulate = 0;  ///< Bit i is set if the op adds to output i.
};

/// Properties of a list's tensors that the list does not show.
struct ListedTensors {
  std::function<const TensorType&(std::uint32_t)> type;
  /// Returns true if the tensor is used outside the list's ops: as a result, or in another list.
  std::function<bool(std::uint32_t)> used_elsewhere;
};

/// Ops of a list that one op replaces, at the position of the last of them.
struct Fusion {
  std::vector<std::size_t> removed;  ///< Positions of the ops to be removed.
  std::size_t last = 0;              ///< Position of the op that becomes `op`.
  Op op;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  std::uint32_t accumulate = 0;  ///< Bit i is set if `op` adds to output i.
};

/// Finds ops that devices run faster as one op: with a product, like the epilogues of cuBLASLt
/// (core/ops/linear_fused.cc), or with fewer passes over memory (core/ops/layer_norm_fused.cc,
/// core/ops/cross_entropy.cc):
///
///   h = linear(x, w, bias); y = gelu(h)
///     -> y, h = linear_gelu; without h if it has no other use
///   t = linear(x, w, bias); y = add(a, t) or add(t, a)
///     -> y = linear_add, if t has no other use
///   t = linear_input_grad(dy, w); dh = gelu_grad(h, t)
///     -> dh = linear_input_grad_gelu, if t has no other use
///   dw = linear_weight_grad(x, dy); db = sum_leading(dy)
///     -> dw, db = linear_weight_grad_sum
///   t = layer_norm_input_grad(x, gamma, dy); dgamma, dbeta = layer_norm_weight_grad(x, dy);
///   dx = add(a, t) or add(t, a)
///     -> dx, dgamma, dbeta = layer_norm_grad_add, if t has no other use; without the weight
///        gradient dx = layer_norm_input_grad_add, without the sum t, dgamma, dbeta =
///        layer_norm_grad
///   loss = cross_entropy(logits, targets); dlogits = cross_entropy_grad(logits, targets)
///     -> dlogits, loss = cross_entropy_with_grad
///
/// The ops need not be adjacent if no op between them uses the outputs or changes the inputs of an
/// earlier one. The result depends on the list only, not on the device: a device without a kernel
/// for a fused op runs the separate ops. Sorted by `last`.
std::vector<Fusion> find_fusions(std::span<const ListedOp> list, const ListedTensors& tensors);

/// Returns the kind of the last op that a fused op replaces, whose position it has; other kinds
/// unchanged.
OpKind unfused_kind(OpKind kind);

/// Returns whether an op of this kind can be the last one that a fused op replaces. The others that
/// it replaces usually stand right before it.
bool can_end_fusion(OpKind kind);

}  // namespace weft
