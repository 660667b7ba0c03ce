#pragma once

#include <cstdint>

#include "core/kernels_cpu/instruction_set.h"

namespace weft {

/// Constants of an AdamW step, as the inner loop wants them.
struct AdamWConstants {
  float gradient_scale, beta1, beta2, one_minus_beta1, one_minus_beta2;
  float step_size;                ///< learning_rate / (1 - beta1^step)
  float inverse_root_correction;  ///< 1 / sqrt(1 - beta2^step)
  float epsilon, decay;           ///< decay = learning_rate * weight_decay
};

/// Kernels over dense rows of floats, one set per instruction set. Where `accumulate` is given, results are
/// added to what is there. Sums run in a fixed order that depends on sizes alone.
struct VectorKernels {
  /// y[r,c] = a[r,c] + b[c]
  void (*add_row)(const float* a, const float* b, float* y, std::int64_t rows, std::int64_t columns);
  /// y[c] = sum over r of x[r,c]
  void (*sum_rows)(const float* x, std::int64_t rows, std::int64_t columns, float* y, bool accumulate);
  void (*gelu)(const float* x, float* y, std::int64_t size);
  void (*gelu_grad)(const float* x, const float* dy, float* dx, std::int64_t size);
  void (*layer_norm)(const float* x, const float* gamma, const float* beta, float* y, std::int64_t rows,
                     std::int64_t columns, float epsilon);
  void (*layer_norm_input_grad)(const float* x, const float* gamma, const float* dy, float* dx,
                                std::int64_t rows, std::int64_t columns, float epsilon);
  void (*layer_norm_weight_grad)(const float* x, const float* dy, float* dgamma, float* dbeta,
                                 std::int64_t rows, std::int64_t columns, float epsilon);
  /// Row r has `first + r` + 1 valid columns (causal); those become softmax(scale * x), the rest up to
  /// `columns` 0. In place.
  void (*causal_softmax)(float* x, std::int64_t rows, std::int64_t columns, std::int64_t first, float scale);
  /// dx = scale * p * (dp - sum(p * dp)) by row, over all `columns`; overwrites dp. p is 0 where masked.
  void (*softmax_grad)(const float* p, float* dp, std::int64_t rows, std::int64_t columns, float scale);
  /// Sum over rows, in order, of logsumexp(x[r]) - x[r, targets[r]].
  double (*cross_entropy)(const float* x, const std::int32_t* targets, std::int64_t rows,
                          std::int64_t columns);
  /// dx[r] = scale * (softmax(x[r]) - onehot(targets[r])); dx may be x.
  void (*cross_entropy_grad)(const float* x, const std::int32_t* targets, float* dx, std::int64_t rows,
                             std::int64_t columns, float scale);
  void (*adamw)(const AdamWConstants& constants, const float* gradients, float* parameters,
                float* first_moment, float* second_moment, std::int64_t size);
  double (*sum_of_squares)(const float* x, std::int64_t size);
};

/// The kernels for an instruction set that this CPU has. Where the program was built for another
/// architecture, the baseline.
const VectorKernels& vector_kernels(InstructionSet set);

}  // namespace weft
