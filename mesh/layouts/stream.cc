#include "mesh/layouts/stream.h"

namespace weft::mesh {

Stream feature_kind_of(const std::string& label) {
  if (label == "embed") return Stream::kResidual;
  if (label == "heads" || label == "mlp" || label == "vocab") return Stream::kHidden;
  return Stream::kNone;
}

}  // namespace weft::mesh
