#include "core/device/optimizer.h"

namespace weft {

double clip_factor(double norm, double clip_norm) { return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1.0; }

}  // namespace weft
