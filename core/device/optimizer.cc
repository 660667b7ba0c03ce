#include "core/device/optimizer.h"

#include <cmath>

#include "core/base/check.h"

namespace weft {

double clip_factor(double norm, double clip_norm) {
  WEFT_CHECK(std::isfinite(norm), "the norm of the gradients is {}", norm);
  return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1.0;
}

}  // namespace weft
