#include "mesh/layouts/feature_kind.h"

namespace weft::mesh {

FeatureKind feature_kind_of(const std::string& label) {
  if (label == "embed") return FeatureKind::kResidual;
  if (label == "heads" || label == "mlp" || label == "vocab") return FeatureKind::kHidden;
  return FeatureKind::kNone;
}

}  // namespace weft::mesh
