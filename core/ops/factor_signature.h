#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/op.h"

namespace weft {

/// What happens when the dimension that a factor stands for is split among devices.
enum class FactorKind : std::uint8_t {
  kParallel,   ///< Each device computes its slice of the outputs; nothing is left to add up.
  kReduction,  ///< Each device computes a partial value; the output is the sum over devices.
  kWhole,      ///< Must not be split.
};

/// One index of an op written as an einsum: a dimension that its inputs and outputs share.
struct Factor {
  FactorKind kind = FactorKind::kParallel;
  std::int64_t size = 0;
  /// Slices begin and end at multiples of this (a head's width, for attention). A dimension may
  /// count these units instead of elements (an attention's heads): then it has size / granularity.
  std::int64_t granularity = 1;
};

/// How an op may be sharded such that running the same op on shards is correct without
/// communication.
///
/// `inputs[t][d]` is the factor of dimension d of input t; sharding a factor shards every dimension
/// that names it, alike. Linear x[B,S,K] * w[K,N] + bias[N] has factors B, S, N (parallel) and K
/// (reduction):
///   inputs = {{B,S,K}, {K,N}, {N}}, outputs = {{B,S,N}},
///   once_inputs = {2}, linear_in = {{0}, {1}}.
/// (The scheme is that of Shardy's sharding rules.)
struct FactorSignature {
  std::vector<Factor> factors;
  std::vector<std::vector<int>> inputs;
  std::vector<std::vector<int>> outputs;
  /// Inputs that only one device may apply where the outputs come out partial (a bias): the others
  /// run the node without that input. Always the last inputs of the op.
  std::vector<int> once_inputs;
  /// Sets of inputs in which the op is jointly linear: if every input of one set is partial over a
  /// mesh axis, and no other input is, then the outputs are partial over it. add: {{0,1}}. gelu:
  /// none.
  std::vector<std::vector<int>> linear_in;
  /// The factor of whose whole range the op's attributes `first` and `count` say the slice that it
  /// does; -1: none. On a shard the op is op_of_slice() of the shard's range.
  int located_factor = -1;
};

/// The op with other attributes `first` and `count`.
Op op_of_slice(Op op, std::int64_t first, std::int64_t count);

/// "(B,S,K)(K,N)(N)->(B,S,N)" with letters a, b, c ... for factors, upper case where whole and "+"
/// after a reduction factor.
std::string to_string(const FactorSignature& signature);

}  // namespace weft
