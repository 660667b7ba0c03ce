#include "core/device/optimizer.h"

#include <cmath>

#include "core/base/check.h"
#include "core/device/adamw_constants.h"

namespace weft {

AdamWConstants adamw_constants(const AdamW& step) {
  const double correction1 = 1 - std::pow(step.beta1, step.step);
  const double correction2 = 1 - std::pow(step.beta2, step.step);
  return {.gradient_scale = static_cast<float>(step.gradient_scale),
          .beta1 = static_cast<float>(step.beta1),
          .beta2 = static_cast<float>(step.beta2),
          .one_minus_beta1 = static_cast<float>(1 - step.beta1),
          .one_minus_beta2 = static_cast<float>(1 - step.beta2),
          .step_size = static_cast<float>(step.learning_rate / correction1),
          .inverse_root_correction = static_cast<float>(1 / std::sqrt(correction2)),
          .epsilon = static_cast<float>(step.epsilon)};
}

float adamw_decay(const AdamW& step, const AdamWParameter& parameter) {
  return static_cast<float>(parameter.decay ? step.learning_rate * step.weight_decay : 0);
}

double clip_factor(double norm, double clip_norm) {
  WEFT_CHECK(std::isfinite(norm), "the norm of the gradients is {}", norm);
  return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1.0;
}

}  // namespace weft
