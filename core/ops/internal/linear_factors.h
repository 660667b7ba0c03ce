#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ops/factor_signature.h"

namespace weft {

/// Factors of a linear op and its two gradients, in the order tokens, k, features, and the
/// dimensions of their tensors.
struct LinearFactors {
  std::vector<Factor> factors;
  std::vector<int> token_k;         ///< x
  std::vector<int> k_features;      ///< w
  std::vector<int> features;        ///< bias
  std::vector<int> token_features;  ///< y
};

/// Returns the factors for x[tokens..., k] and w[k, features...].
LinearFactors linear_factors(std::span<const std::int64_t> tokens, std::int64_t k,
                             std::span<const std::int64_t> features, FactorKind token_kind,
                             FactorKind k_kind, FactorKind feature_kind);

}  // namespace weft
