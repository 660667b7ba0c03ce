#pragma once

namespace weft {

struct AdamW;
struct OptimizedParameter;

/// Constants of an AdamW step, as the inner loops of every device want them.
struct AdamWConstants {
  float gradient_scale, beta1, beta2, one_minus_beta1, one_minus_beta2;
  float step_size;                ///< learning_rate / (1 - beta1^step)
  float inverse_root_correction;  ///< 1 / sqrt(1 - beta2^step)
  float epsilon;
};

AdamWConstants adamw_constants(const AdamW& step);
/// learning_rate * weight_decay; 0 for a parameter that does not decay.
float adamw_decay(const AdamW& step, const OptimizedParameter& parameter);

}  // namespace weft
