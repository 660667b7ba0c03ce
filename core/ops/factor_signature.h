#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/op.h"

namespace weft {

/// Effect of splitting the dimension of a factor over devices.
enum class FactorKind : std::uint8_t {
  kParallel,   ///< Each device computes its slice of the outputs; no sum is needed.
  kReduction,  ///< Each device computes a partial value; the output is the sum over devices.
  kWhole,      ///< The dimension must not be split.
};

/// Index of an op written as an einsum: a dimension that inputs and outputs share.
struct Factor {
  FactorKind kind = FactorKind::kParallel;
  std::int64_t size = 0;
  /// Slice boundaries are multiples of this (for attention, of a head's width). A dimension may
  /// count these units instead of elements (attention's heads); its size is then size /
  /// granularity.
  std::int64_t granularity = 1;
};

/// Ways to shard an op such that the same op runs correctly on shards without communication.
///
/// `inputs[t][d]` is the factor of dimension d of input t. Sharding a factor shards every dimension
/// with that factor in the same way. Linear x[B,S,K] * w[K,N] + bias[N] has factors B, S, N
/// (parallel) and K (reduction):
///   inputs = {{B,S,K}, {K,N}, {N}}, outputs = {{B,S,N}},
///   single_device_inputs = {2}, linear_in = {{0}, {1}}.
/// (The scheme is that of Shardy's sharding rules.)
struct FactorSignature {
  std::vector<Factor> factors;
  std::vector<std::vector<int>> inputs;
  std::vector<std::vector<int>> outputs;
  /// Inputs that only one device may apply if the outputs are partial (a bias); other devices run
  /// the node without them. Always the last inputs of the op.
  std::vector<int> single_device_inputs;
  /// Sets of inputs in which the op is jointly linear: if exactly the inputs of one set are partial
  /// over a mesh axis, the outputs are partial over it. add: {{0,1}}. gelu: none.
  std::vector<std::vector<int>> linear_in;
  /// Factor whose slice the op's attributes `first` and `count` state, in the range of the whole
  /// dimension; -1: none. A shard runs op_of_slice() with its range.
  int sliced_factor = -1;
};

/// Returns the op with other attributes `first` and `count`.
Op op_of_slice(Op op, std::int64_t first, std::int64_t count);

/// Returns "(a,b,c+)(c+,d)(d)->(a,b,d)": letters for factors, upper case for whole ones, and "+"
/// after a reduction factor.
std::string to_string(const FactorSignature& signature);

}  // namespace weft
