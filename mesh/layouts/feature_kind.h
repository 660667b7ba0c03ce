#pragma once

#include <cstdint>
#include <string>

namespace weft::mesh {

/// Kind of features that a dimension holds, by its logical name.
enum class FeatureKind : std::uint8_t {
  kNone,
  kResidual,  ///< "embed"
  kHidden,    ///< "heads", "mlp", "vocab": between an expand and a contract
};
FeatureKind feature_kind_of(const std::string& label);

}  // namespace weft::mesh
