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
  bool accumulate = false;  ///< True if the op adds to its outputs.
};

/// Properties of a list's tensors that the list does not show.
struct ListedTensors {
  std::function<const TensorType&(std::uint32_t)> type;
  /// Returns true if the tensor is used outside the list's ops: as a result, or in another list.
  std::function<bool(std::uint32_t)> used_elsewhere;
};

/// Pair of ops of a list that one op replaces, at the position of the second.
struct Fusion {
  std::size_t first = 0;   ///< Position of the op to be removed.
  std::size_t second = 0;  ///< Position of the op that becomes `op`.
  Op op;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
};

/// Finds pairs of ops that devices run faster as one op (core/ops/linear_fused.cc), like the
/// epilogues of cuBLASLt:
///
///   h = linear(x, w, bias); y = gelu(h)
///     -> y, h = linear_gelu; without h if it has no other use
///   t = linear(x, w, bias); y = add(a, t) or add(t, a)
///     -> y = linear_add, if t has no other use
///   t = linear_input_grad(dy, w); dh = gelu_grad(h, t)
///     -> dh = linear_input_grad_gelu, if t has no other use
///   dw = linear_weight_grad(x, dy); db = sum_leading(dy)
///     -> dw, db = linear_weight_grad_sum
///
/// The ops need not be adjacent if no op between them uses the outputs or changes the inputs of the
/// first. The result depends on the list only, not on the device: a device without a kernel for a
/// pair runs both ops. Sorted by `second`.
std::vector<Fusion> find_fusions(std::span<const ListedOp> list, const ListedTensors& tensors);

/// Returns the kind of the second op of a fused pair, whose position the fused op has; other kinds
/// unchanged.
OpKind unfused_kind(OpKind kind);

}  // namespace weft
