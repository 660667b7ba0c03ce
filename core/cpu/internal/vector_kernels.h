#pragma once

#include <cstdint>

#include "core/cpu/instruction_set.h"
#include "core/device/adamw_constants.h"

namespace weft {

/// Addresses and sizes of one head of one batch entry. A row is head_dim floats; q_row, kv_row and
/// y_row are the distances between rows, in floats.
struct AttentionHead {
  const float *q, *k, *v;
  float* y;  ///< Output.
  /// Output: log sum exp(scale * q . k) of every query. An input of the gradient
  /// (AttentionHeadGrad).
  float* statistics;
  std::int64_t q_row, kv_row, y_row;
  std::int64_t queries, keys, head_dim;
  bool causal;  ///< True if query i attends to keys 0 to i only; queries == keys then.
  float scale;
  float* workspace;
};

/// Further addresses for the gradient. Row distances are those of q, k, v and y.
struct AttentionHeadGrad {
  const float *y, *statistics, *dy;
  float *dq, *dk, *dv;
};

/// Sample of a group norm.
struct GroupNormSample {
  const float* x;  ///< [positions, channels]
  std::int64_t positions, channels, group_size;
  float epsilon;
  float* workspace;
};
constexpr std::int64_t kGroupNormWorkspaceRows = 5;

/// Kernels over dense rows of floats, one instance per instruction set. With `accumulate`, results
/// are added to the output. The order of additions depends on sizes only.
struct VectorKernels {
  /// Computes y[r,c] = a[r,c] + b[c].
  void (*add_row)(const float* a, const float* b, float* y, std::int64_t rows,
                  std::int64_t columns);
  /// Computes y[c] = sum over r of x[r,c].
  void (*sum_rows)(const float* x, std::int64_t rows, std::int64_t columns, float* y,
                   bool accumulate);
  void (*gelu)(const float* x, float* y, std::int64_t size);
  void (*gelu_grad)(const float* x, const float* dy, float* dx, std::int64_t size);
  /// Computes silu(x) = x * sigmoid(x).
  void (*silu)(const float* x, float* y, std::int64_t size);
  void (*silu_grad)(const float* x, const float* dy, float* dx, std::int64_t size);
  void (*sigmoid)(const float* x, float* y, std::int64_t size);
  void (*sigmoid_grad)(const float* x, const float* dy, float* dx, std::int64_t size);
  void (*multiply)(const float* a, const float* b, float* y, std::int64_t size);
  /// Group norm of one sample x[positions, channels] and its gradients. Adds to dgamma and dbeta.
  /// The workspace has kGroupNormWorkspaceRows * channels floats.
  void (*group_norm)(const GroupNormSample& sample, const float* gamma, const float* beta,
                     float* y);
  void (*group_norm_input_grad)(const GroupNormSample& sample, const float* gamma, const float* dy,
                                float* dx);
  void (*group_norm_weight_grad)(const GroupNormSample& sample, const float* dy, float* dgamma,
                                 float* dbeta);
  /// Computes one row of pixels of the smaller picture: dx[j,c] = sum over factor by factor pixels
  /// of dy, whose rows are `dy_row` floats apart.
  void (*sum_pixel_blocks)(const float* dy, std::int64_t dy_row, float* dx, std::int64_t width,
                           std::int64_t channels, std::int64_t factor);
  void (*layer_norm)(const float* x, const float* gamma, const float* beta, float* y,
                     std::int64_t rows, std::int64_t columns, float epsilon);
  void (*layer_norm_input_grad)(const float* x, const float* gamma, const float* dy, float* dx,
                                std::int64_t rows, std::int64_t columns, float epsilon);
  void (*layer_norm_weight_grad)(const float* x, const float* dy, float* dgamma, float* dbeta,
                                 std::int64_t rows, std::int64_t columns, float epsilon);
  /// Parts of a layer norm: core/ops/split_layer_norm.cc. The last one adds to its outputs.
  void (*layer_norm_moments)(const float* x, float* moments, std::int64_t slices,
                             std::int64_t width);
  void (*layer_norm_apply)(const float* x, const float* statistics, const float* gamma,
                           const float* beta, float* y, std::int64_t rows, std::int64_t columns);
  void (*layer_norm_gradient_sums)(const float* x, const float* statistics, const float* gamma,
                                   const float* dy, float* sums, std::int64_t rows,
                                   std::int64_t columns);
  void (*layer_norm_apply_input_grad)(const float* x, const float* statistics, const float* gamma,
                                      const float* dy, const float* sums, float* dx,
                                      std::int64_t rows, std::int64_t columns, std::int64_t width);
  void (*layer_norm_apply_weight_grad)(const float* x, const float* statistics, const float* dy,
                                       float* dgamma, float* dbeta, std::int64_t rows,
                                       std::int64_t columns);
  /// Attention of one head, and its gradient.
  void (*attention_head)(const AttentionHead& head);
  void (*attention_head_grad)(const AttentionHead& head, const AttentionHeadGrad& gradient);
  /// Returns the number of workspace floats that either needs.
  std::int64_t (*attention_workspace)(std::int64_t queries, std::int64_t keys,
                                      std::int64_t head_dim);
  /// Returns the sum over rows, in order, of weights[r] * (logsumexp(x[r]) - x[r, targets[r]]).
  /// Null weights count as 1.
  double (*cross_entropy)(const float* x, const std::int32_t* targets, const float* weights,
                          std::int64_t rows, std::int64_t columns);
  /// Returns the same bits as cross_entropy(). Computes dx[r] = scale * weights[r] *
  /// (softmax(x[r]) - onehot(targets[r])); dx may be x.
  double (*cross_entropy_with_grad)(const float* x, const std::int32_t* targets,
                                    const float* weights, float* dx, std::int64_t rows,
                                    std::int64_t columns, float scale);
  /// Computes moments[0] = max(x), moments[1] = sum of exp(x - max).
  void (*slice_maximum_and_sum)(const float* x, std::int64_t columns, float* moments);
  /// Computes y = scale * exp(x - shift); y may be x.
  void (*scaled_exp)(const float* x, float* y, std::int64_t columns, float shift, float scale);
  /// Returns the sum of (a[i] - b[i])^2, computed in double in a fixed order.
  double (*squared_error)(const float* a, const float* b, std::int64_t size);
  /// Computes y[i] = scale * (a[i] - b[i]); y may be a.
  void (*scaled_difference)(const float* a, const float* b, float* y, std::int64_t size,
                            float scale);
  void (*adamw)(const AdamWConstants& constants, float decay, const float* gradients,
                float* parameters, float* first_moment, float* second_moment, std::int64_t size);
  double (*sum_of_squares)(const float* x, std::int64_t size);
};

/// Returns the kernels for an instruction set of this CPU; the baseline if the program was built
/// for another architecture than x86-64.
const VectorKernels& vector_kernels(InstructionSet set);

}  // namespace weft
