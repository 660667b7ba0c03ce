#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/graph/op.h"
#include "core/tensor/shape.h"

namespace weft {

/// An op in a list of ops that run one after the other, on tensors that have numbers; or something
/// else between them that touches tensors (a transfer, say), with no op.
struct ListedOp {
  const Op* op = nullptr;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  bool accumulate = false;  ///< Adds to its outputs.
};

/// What a list's tensors are outside of it.
struct ListedTensors {
  std::function<const TensorType&(std::uint32_t)> type;
  /// Whether anything but the list's ops uses the tensor: as a result, or in another list.
  std::function<bool(std::uint32_t)> used_elsewhere;
};

/// Two ops of a list that one stands for, at the place of the second.
struct Fusion {
  std::size_t first = 0;   ///< Goes.
  std::size_t second = 0;  ///< Becomes `op`.
  Op op;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
};

/// Finds the pairs that devices do better as one op (core/ops/linear_fused.cc), as cuBLASLt does
/// them while it writes a product:
///
///   h = linear(x, w, bias); y = gelu(h)
///     -> y, h = linear_gelu; without h if nothing else uses it
///   t = linear(x, w, bias); y = add(a, t) or add(t, a)
///     -> y = linear_add, if nothing else uses t
///   t = linear_input_grad(dy, w); dh = gelu_grad(h, t)
///     -> dh = linear_input_grad_gelu, if nothing else uses t
///   dw = linear_weight_grad(x, dy); db = sum_leading(dy)
///     -> dw, db = linear_weight_grad_sum
///
/// The ops need not be neighbours, if nothing between them touches what the first makes. What is
/// found depends on the list alone, not on a device: a device that has no kernel for a pair runs
/// the two. In ascending order of `second`. Pure.
std::vector<Fusion> find_fusions(std::span<const ListedOp> list, const ListedTensors& tensors);

/// Of a fused op, the kind of the second of its pair, in whose place it stands; of others their
/// own.
OpKind kind_in_place_of(OpKind kind);

}  // namespace weft
