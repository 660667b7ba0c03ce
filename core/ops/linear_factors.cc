#include "core/ops/internal/linear_factors.h"

#include "core/ops/internal/type_check.h"

namespace weft {

LinearFactors linear_factors(std::span<const std::int64_t> tokens, std::int64_t k,
                             std::span<const std::int64_t> features, FactorKind token_kind,
                             FactorKind k_kind, FactorKind feature_kind) {
  LinearFactors result;
  for (const std::int64_t size : tokens) result.factors.push_back({token_kind, size});
  result.factors.push_back({k_kind, k});
  for (const std::int64_t size : features) result.factors.push_back({feature_kind, size});
  result.token_k = factor_range(0, tokens.size() + 1);
  result.k_features = factor_range(tokens.size(), features.size() + 1);
  result.features = factor_range(tokens.size() + 1, features.size());
  result.token_features = factor_range(0, tokens.size());
  result.token_features.insert(result.token_features.end(), result.features.begin(),
                               result.features.end());
  return result;
}

}  // namespace weft
