#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/optimizer.h"
#include "core/graph/op_kind.h"
#include "core/tensor/dtype.h"

struct CUstream_st;

/// Launchers of Weft's own kernels. Each queues one or a few launches on the stream and returns.
/// Pointers are GPU addresses. Element types are f32 or bf16 unless stated otherwise; arithmetic is
/// in float. `accumulate` adds to the output. Kernels are in the .cuh file named after the section;
/// .cu files compile them for the GPU, and the contract suite compiles them for the CPU.
namespace weft::cuda {

using StreamHandle = CUstream_st*;

/// Word in host memory in which kernels report invalid data. 0 if there is none; else the caller's
/// `fault_word` (with a lower half of 0) combined with the invalid number in the lower half.
using FaultWord = volatile std::uint64_t;

// --- elementwise ---

/// Computes y[i] = f(a[i], b[i]). `f` is an element-wise op, or squared_error_grad with `parameter`
/// = 2 * scale. `type` is the type of a.
void launch_elementwise(StreamHandle stream, OpKind f, DType type, const void* a, const void* b,
                        void* y, std::int64_t size, float parameter, bool accumulate);
/// Computes y[i] = a[i] + b[i / sample * columns + i % columns]: adds one row to all rows (sample =
/// size), or one row per sample to all of its positions.
void add_broadcast(StreamHandle stream, DType type, const void* a, const void* b, void* y,
                   std::int64_t size, std::int64_t sample, std::int64_t columns, bool accumulate);

// --- pictures: [batch, height, width, channels] ---

struct PictureShape {
  std::int64_t batch = 0, height = 0, width = 0, channels = 0;
  std::int64_t elements() const { return batch * height * width * channels; }
};

/// Computes y[b, i, j] = x[b, i / factor, j / factor]; `x` is the smaller picture.
void upsample(StreamHandle stream, DType type, const void* small, void* large, PictureShape x,
              std::int64_t factor);
/// Computes dx[b, i, j] = sum over the factor by factor square of dy.
void upsample_grad(StreamHandle stream, DType type, const void* large, void* small, PictureShape x,
                   std::int64_t factor);
/// Copies to[r, to_begin + c] = from[r, from_begin + c] for c < count.
void copy_columns(StreamHandle stream, DType type, const void* from, std::int64_t from_columns,
                  std::int64_t from_begin, void* to, std::int64_t to_columns, std::int64_t to_begin,
                  std::int64_t rows, std::int64_t count);

/// Computes to[c, r] = from[r, c] (+ to[c, r]); from f32 or bf16 to the same type or to f32.
void transpose(StreamHandle stream, DType in, DType out, const void* from, void* to,
               std::int64_t rows, std::int64_t columns, bool accumulate);

/// Sizes of a convolution; y is [batch, out_height, out_width, ...].
struct ConvolutionShape {
  PictureShape x;
  std::int64_t kernel_height = 0, kernel_width = 0, stride = 1, padding = 0, out_height = 0,
               out_width = 0;
};
/// Computes columns[b, i, j, p, q, c] = x[b, i*stride + p - padding, j*stride + q - padding, c],
/// zero outside (im2col).
void picture_to_columns(StreamHandle stream, DType type, const void* x, void* columns,
                        const ConvolutionShape& window);
/// Computes dx as the sum of all `columns` elements to which an element of x was copied (col2im).
/// They are f32, so that the sum is rounded once.
void columns_to_picture(StreamHandle stream, DType type, const float* columns, void* dx,
                        const ConvolutionShape& window);

// --- sums of rows (column_sums.cuh) ---

/// Returns the floats of work space for `sums` sums over the rows of x[batch, rows, columns].
std::int64_t column_sums_workspace(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                   int sums);
/// Computes y[b, c] = sum over r of x[b, r, c].
void sum_rows(StreamHandle stream, DType in, DType out, const void* x, void* y, std::int64_t batch,
              std::int64_t rows, std::int64_t columns, bool accumulate, float* workspace);

// --- norms ---

void layer_norm(StreamHandle stream, DType type, const void* x, const void* gamma, const void* beta,
                void* y, std::int64_t rows, std::int64_t columns, float epsilon);
/// Destination of the gradients of a norm's parameters.
struct WeightGradients {
  float* gamma = nullptr;
  float* beta = nullptr;
  bool add_to_gamma = false;
  bool add_to_beta = false;
};
/// Tensors of the gradients of layer norm. dx may be the memory of dy or of the addend.
struct LayerNormGrad {
  const void *x = nullptr, *dy = nullptr;
  const void* gamma = nullptr;   ///< May be null if dx is.
  const void* addend = nullptr;  ///< Added to dx. Null counts as 0.
  void* dx = nullptr;            ///< Null: not wanted.
  WeightGradients weights = {};  ///< Null members: not wanted.
};
/// Returns the floats of work space that layer_norm_grad needs for weight gradients.
std::int64_t layer_norm_grad_workspace(DType type, std::int64_t rows, std::int64_t columns);
/// Blocks may use `shared_bytes` of shared memory. The work space may be null without weight
/// gradients.
void layer_norm_grad(StreamHandle stream, DType type, const LayerNormGrad& grad, std::int64_t rows,
                     std::int64_t columns, float epsilon, std::size_t shared_bytes,
                     float* workspace);
// Layer norm in parts: core/ops/split_layer_norm.cc.
void layer_norm_moments(StreamHandle stream, DType type, const void* x, float* moments,
                        std::int64_t slices, std::int64_t width);
void layer_norm_statistics(StreamHandle stream, const float* moments, float* statistics,
                           std::int64_t rows, std::int64_t slices, std::int64_t width,
                           double epsilon);
void layer_norm_apply(StreamHandle stream, DType type, const void* x, const float* statistics,
                      const void* gamma, const void* beta, void* y, std::int64_t rows,
                      std::int64_t columns);
void layer_norm_gradient_sums(StreamHandle stream, DType type, const void* x,
                              const float* statistics, const void* gamma, const void* dy,
                              float* sums, std::int64_t rows, std::int64_t columns);
void layer_norm_apply_input_grad(StreamHandle stream, DType type, const void* x,
                                 const float* statistics, const void* gamma, const void* dy,
                                 const float* sums, void* dx, std::int64_t rows,
                                 std::int64_t columns, std::int64_t width);
/// Needs column_sums_workspace(1, rows, columns, 2) floats of work space.
void layer_norm_apply_weight_grad(StreamHandle stream, DType type, const void* x,
                                  const float* statistics, const void* dy,
                                  const WeightGradients& to, std::int64_t rows,
                                  std::int64_t columns, float* workspace);

struct GroupNorm {
  std::int64_t batch = 0, positions = 0, channels = 0, group_size = 1;
  float epsilon = 1e-5f;
  /// Returns the floats of work space that each of the three functions needs.
  std::int64_t workspace() const {
    return 8 * batch * channels + column_sums_workspace(batch, positions, channels, 2);
  }
};
void group_norm(StreamHandle stream, DType type, const GroupNorm& shape, const void* x,
                const void* gamma, const void* beta, void* y, float* workspace);
void group_norm_input_grad(StreamHandle stream, DType type, const GroupNorm& shape, const void* x,
                           const void* gamma, const void* dy, void* dx, float* workspace);
void group_norm_weight_grad(StreamHandle stream, DType type, const GroupNorm& shape, const void* x,
                            const void* dy, float* dgamma, float* dbeta, bool accumulate_gamma,
                            bool accumulate_beta, float* workspace);

// --- losses ---

/// Computes *loss = scale * sum of weights[r] * (logsumexp(logits[r]) - logits[r, targets[r]]).
/// Null weights count as 1. Needs `rows` floats of work space.
void cross_entropy(StreamHandle stream, DType type, const void* logits, const std::int32_t* targets,
                   const float* weights, float* loss, std::int64_t rows, std::int64_t columns,
                   double scale, bool accumulate, float* workspace, std::uint64_t fault_word,
                   FaultWord* fault);
/// Computes dlogits, which may be `logits`, and the loss unless `loss` is null. Only the loss needs
/// `rows` floats of work space. Blocks may use `shared_bytes` of shared memory.
void cross_entropy_grad(StreamHandle stream, DType type, const void* logits,
                        const std::int32_t* targets, const float* weights, void* dlogits,
                        float* loss, std::int64_t rows, std::int64_t columns, double scale,
                        std::size_t shared_bytes, float* workspace, std::uint64_t fault_word,
                        FaultWord* fault);
/// Slice of the columns of a vocabulary, for core/ops/split_cross_entropy.cc.
struct LogitSlice {
  std::int64_t rows = 0;
  std::int64_t columns = 0;  ///< Number of columns in the slice.
  std::int64_t first = 0;    ///< First column, in the whole vocabulary.
  /// Columns of the whole vocabulary without padding; later columns are padding.
  std::int64_t vocabulary_size = 0;
};
void cross_entropy_moments(StreamHandle stream, DType type, const void* logits,
                           const std::int32_t* targets, float* moments, const LogitSlice& slice,
                           std::int64_t width, std::uint64_t fault_word, FaultWord* fault);
void cross_entropy_statistics(StreamHandle stream, const float* moments, float* statistics,
                              std::int64_t rows, std::int64_t slices);
/// Needs `rows` doubles of work space.
void cross_entropy_of_statistics(StreamHandle stream, const float* statistics, const float* weights,
                                 float* loss, std::int64_t rows, double scale, bool accumulate,
                                 double* workspace);
void cross_entropy_apply_grad(StreamHandle stream, DType type, const void* logits,
                              const std::int32_t* targets, const float* statistics,
                              const float* weights, void* dlogits, const LogitSlice& slice,
                              float scale, std::uint64_t fault_word, FaultWord* fault);
// Parts of the input gradient: core/ops/split_cross_entropy_input_grad.cc.
void cross_entropy_numerators(StreamHandle stream, DType type, const void* logits,
                              const float* moments, void* numerators, const LogitSlice& slice,
                              std::int64_t width);
/// `weight` is [width, slice.columns], or its transpose.
void target_rows(StreamHandle stream, DType type, const void* weight, const std::int32_t* targets,
                 void* rows, const LogitSlice& slice, std::int64_t slice_width, std::int64_t width,
                 bool transposed, std::uint64_t fault_word, FaultWord* fault);
struct CombinedInputGrad {
  const float *moments = nullptr, *statistics = nullptr, *products = nullptr;
  const float* weights = nullptr;  ///< Null weights count as 1.
  std::int64_t tokens = 0, slices = 0, width = 0;
  float scale = 1;
};
void cross_entropy_combined_input_grad(StreamHandle stream, DType type,
                                       const CombinedInputGrad& from, const void* targets,
                                       void* dx);
/// Returns the doubles of work space that squared_error needs.
std::int64_t squared_error_workspace(std::int64_t size);
void squared_error(StreamHandle stream, DType type, const void* x, const float* target, float* loss,
                   std::int64_t size, double scale, bool accumulate, double* workspace);

// --- embedding ---

/// Slice of a table's rows: [first, first + count). Rows from `num_rows` on are padding.
struct TableSlice {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t num_rows = 0;
  std::int64_t columns = 0;
};
/// Looks up rows; writes zeros for ids outside the slice.
void embedding(StreamHandle stream, DType type, const void* table, const std::int32_t* ids, void* y,
               std::int64_t tokens, const TableSlice& slice, std::uint64_t fault_word,
               FaultWord* fault);
/// Returns the 64-bit words of work space that embedding_grad needs.
std::int64_t embedding_grad_workspace(std::int64_t tokens);
/// Adds every row of dy[tokens, columns] to the row of its id if the slice contains it, in token
/// order. The caller must initialise the table.
void embedding_grad(StreamHandle stream, DType type, const std::int32_t* ids, const void* dy,
                    float* dtable, std::int64_t tokens, const TableSlice& slice,
                    std::uint64_t* workspace, std::uint64_t fault_word, FaultWord* fault);

// --- products ---

/// Function that a fused product applies to its sums before writing them.
enum class Epilogue : std::uint8_t {
  kNone,
  kGelu,      ///< c = gelu(sum); writes the sum to `gelu_input` unless null
  kGeluGrad,  ///< c = gelu'(gelu_input) * sum
};

/// Product c[m, n] = a * b (+ bias[n]) (+ c) of dense row-major matrices. a is [m, k], or [k, m] if
/// transposed; b is [k, n], or [n, k] if transposed. a, b and bias have one element type; c has the
/// same or f32. Sums are in float.
struct MatrixProduct {
  DType in = DType::kF32, out = DType::kF32;
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void* c = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;

  // The following members are for fused products (Backend::multiply_fused) only.
  const void* addend = nullptr;  ///< [m, n] like c; added to the sum. Not with `accumulate`.
  Epilogue epilogue = Epilogue::kNone;
  void* gelu_input = nullptr;   ///< [m, n] like c.
  float* b_row_sums = nullptr;  ///< [n]; output: the sum of b's rows. Requires an f32 c.
};

/// Queues Weft's own kernel, for products that cuBLASLt does not support.
void matrix_product(StreamHandle stream, const MatrixProduct& product);

// --- attention ---

/// Sizes and strides of y = softmax(scale * q k^T) v per batch entry and head. Element (b, row,
/// head, d) of a tensor is at b * batch_stride + row * row_stride + head * head_dim + d. k and v
/// have the same strides, dy those of y, and gradients those of their tensors. The statistics, log
/// sum exp(scale * q k^T) of each row, are dense floats [batch, heads, queries].
struct Attention {
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, head_dim = 0;
  bool causal = false;  ///< True if query i attends to keys up to i only.
  std::int64_t q_batch = 0, q_row = 0, k_batch = 0, k_row = 0, y_batch = 0, y_row = 0;
};
struct AttentionGradTensors {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *y = nullptr, *dy = nullptr;
  const float* statistics = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};
/// Returns the largest head_dim for `shared_bytes` of shared memory per block.
std::int64_t attention_max_head_dim(std::size_t shared_bytes);
void attention(StreamHandle stream, DType type, const Attention& shape, const void* q,
               const void* k, const void* v, void* y, float* statistics, std::size_t shared_bytes);
/// Needs batch * heads * queries floats of work space.
void attention_grad(StreamHandle stream, DType type, const Attention& shape,
                    const AttentionGradTensors& tensors, float* workspace,
                    std::size_t shared_bytes);

// --- optimizer ---

void adamw(StreamHandle stream, const AdamW& step, std::span<const AdamWParameter> parameters);
/// Returns the doubles of work space that sums_of_squares needs.
std::int64_t sums_of_squares_workspace(std::span<const std::span<const float>> tensors);
/// Sets results[i] to the sum of squares of tensors[i].
void sums_of_squares(StreamHandle stream, std::span<const std::span<const float>> tensors,
                     double* results, double* workspace);

}  // namespace weft::cuda
