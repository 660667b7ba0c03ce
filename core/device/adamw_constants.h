#pragma once

namespace weft {

struct AdamW;
struct AdamWParameter;

/// Constants of an AdamW step in the form used by the inner loops of all devices.
struct AdamWConstants {
  float gradient_scale, beta1, beta2, one_minus_beta1, one_minus_beta2;
  float step_size;                ///< learning_rate / (1 - beta1^step)
  float inverse_root_correction;  ///< 1 / sqrt(1 - beta2^step)
  float epsilon;
};

AdamWConstants adamw_constants(const AdamW& step);
/// Returns learning_rate * weight_decay, or 0 for a parameter without decay.
float adamw_decay(const AdamW& step, const AdamWParameter& parameter);

}  // namespace weft
