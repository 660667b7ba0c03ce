#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/optimizer.h"
#include "core/graph/op_kind.h"
#include "core/tensor/dtype.h"

struct CUstream_st;

/// The launchers of Weft's own kernels. Each queues one or a few launches on the stream and
/// returns. Pointers are the GPU's. Element types are f32 or bf16 unless it says otherwise;
/// arithmetic is float. `accumulate` adds to what the output holds. The .cuh file of the same name
/// has the kernels; .cu files compile them for the GPU, and the contract suite compiles them for
/// the CPU.
namespace weft::cuda {

using StreamHandle = CUstream_st*;

/// Where kernels say that data is wrong: host memory that the GPU writes. 0, or in one store the
/// caller's `fault_word` (its lower half is 0) with the wrong number in the lower half.
using Fault = volatile std::uint64_t;

// --- elementwise ---

/// y[i] = f(a[i], b[i]), where `f` is an elementwise op, or squared_error_grad with `parameter` for
/// 2 * scale. `type` is a's.
void map(StreamHandle stream, OpKind f, DType type, const void* a, const void* b, void* y,
         std::int64_t size, float parameter, bool accumulate);
/// y[i] = a[i] + b[i / sample * columns + i % columns]: a row added to all rows (sample = size), or
/// one per sample to its positions.
void add_broadcast(StreamHandle stream, DType type, const void* a, const void* b, void* y,
                   std::int64_t size, std::int64_t sample, std::int64_t columns, bool accumulate);

// --- pictures: [batch, height, width, channels] ---

struct Picture {
  std::int64_t batch = 0, height = 0, width = 0, channels = 0;
  std::int64_t elements() const { return batch * height * width * channels; }
};

/// y[b, i, j] = x[b, i / factor, j / factor]; `x` is the small picture.
void upsample(StreamHandle stream, DType type, const void* small, void* large, Picture x,
              std::int64_t factor);
/// dx[b, i, j] = sum of the square of dy.
void upsample_grad(StreamHandle stream, DType type, const void* large, void* small, Picture x,
                   std::int64_t factor);
/// to[r, to_begin + c] = from[r, from_begin + c] for c < count.
void copy_columns(StreamHandle stream, DType type, const void* from, std::int64_t from_columns,
                  std::int64_t from_begin, void* to, std::int64_t to_columns, std::int64_t to_begin,
                  std::int64_t rows, std::int64_t count);

/// to[c, r] = from[r, c] (+ to[c, r]); from f32 or bf16 to the same or to f32.
void transpose(StreamHandle stream, DType in, DType out, const void* from, void* to,
               std::int64_t rows, std::int64_t columns, bool accumulate);

/// A convolution's sizes; y is [batch, out_height, out_width, ...].
struct Window {
  Picture x;
  std::int64_t kernel_height = 0, kernel_width = 0, stride = 1, padding = 0, out_height = 0,
               out_width = 0;
};
/// columns[b, i, j, p, q, c] = x[b, i*stride + p - padding, j*stride + q - padding, c], zero
/// outside.
void picture_to_columns(StreamHandle stream, DType type, const void* x, void* columns,
                        const Window& window);
/// dx = the sum over all places of `columns` that an element of x went to; they are f32, so that it
/// is rounded once.
void columns_to_picture(StreamHandle stream, DType type, const float* columns, void* dx,
                        const Window& window);

// --- sums of rows (column_sums.cuh) ---

/// Floats of work space that sums of x[batch, rows, columns] over the rows take, for `sums` sums.
std::int64_t column_sums_workspace(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                   int sums);
/// y[b, c] = sum over r of x[b, r, c].
void sum_rows(StreamHandle stream, DType in, DType out, const void* x, void* y, std::int64_t batch,
              std::int64_t rows, std::int64_t columns, bool accumulate, float* workspace);

// --- norms ---

void layer_norm(StreamHandle stream, DType type, const void* x, const void* gamma, const void* beta,
                void* y, std::int64_t rows, std::int64_t columns, float epsilon);
void layer_norm_input_grad(StreamHandle stream, DType type, const void* x, const void* gamma,
                           const void* dy, void* dx, std::int64_t rows, std::int64_t columns,
                           float epsilon);
/// Where the gradients of a norm's parameters go.
struct WeightGradients {
  float* gamma = nullptr;
  float* beta = nullptr;
  bool add_to_gamma = false;
  bool add_to_beta = false;
};
/// Work space: 2 * rows + column_sums_workspace(1, rows, columns, 2) floats.
void layer_norm_weight_grad(StreamHandle stream, DType type, const void* x, const void* dy,
                            const WeightGradients& to, std::int64_t rows, std::int64_t columns,
                            float epsilon, float* workspace);
// In parts: core/ops/split_layer_norm.cc.
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
/// Work space: column_sums_workspace(1, rows, columns, 2) floats.
void layer_norm_apply_weight_grad(StreamHandle stream, DType type, const void* x,
                                  const float* statistics, const void* dy,
                                  const WeightGradients& to, std::int64_t rows,
                                  std::int64_t columns, float* workspace);

struct GroupNorm {
  std::int64_t batch = 0, positions = 0, channels = 0, group_size = 1;
  float epsilon = 1e-5f;
  /// Floats of work space that each of the three takes.
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

/// *loss = scale * sum of weights[r] * (logsumexp(logits[r]) - logits[r, targets[r]]). Null weights
/// are 1. Work space: `rows` floats.
void cross_entropy(StreamHandle stream, DType type, const void* logits, const std::int32_t* targets,
                   const float* weights, float* loss, std::int64_t rows, std::int64_t columns,
                   double scale, bool accumulate, float* workspace, std::uint64_t fault_word,
                   Fault* fault);
void cross_entropy_grad(StreamHandle stream, DType type, const void* logits,
                        const std::int32_t* targets, const float* weights, void* dlogits,
                        std::int64_t rows, std::int64_t columns, float scale,
                        std::uint64_t fault_word, Fault* fault);
/// Columns of a vocabulary that are here, in parts: core/ops/split_cross_entropy.cc.
struct LogitSlice {
  std::int64_t rows = 0;
  std::int64_t columns = 0;  ///< That are here.
  std::int64_t first = 0;    ///< Of the whole vocabulary.
  std::int64_t real = 0;     ///< Of the whole vocabulary: what comes after is padding.
};
void cross_entropy_moments(StreamHandle stream, DType type, const void* logits,
                           const std::int32_t* targets, float* moments, const LogitSlice& slice,
                           std::int64_t width, std::uint64_t fault_word, Fault* fault);
void cross_entropy_statistics(StreamHandle stream, const float* moments, float* statistics,
                              std::int64_t rows, std::int64_t slices);
/// Work space: `rows` doubles.
void cross_entropy_of_statistics(StreamHandle stream, const float* statistics, const float* weights,
                                 float* loss, std::int64_t rows, double scale, bool accumulate,
                                 double* workspace);
void cross_entropy_apply_grad(StreamHandle stream, DType type, const void* logits,
                              const std::int32_t* targets, const float* statistics,
                              const float* weights, void* dlogits, const LogitSlice& slice,
                              float scale, std::uint64_t fault_word, Fault* fault);
// core/ops/split_cross_entropy_input_grad.cc.
void cross_entropy_numerators(StreamHandle stream, DType type, const void* logits,
                              const float* moments, void* numerators, const LogitSlice& slice,
                              std::int64_t width);
/// `weight` is [width, slice.columns], or its transpose.
void target_rows(StreamHandle stream, DType type, const void* weight, const std::int32_t* targets,
                 void* rows, const LogitSlice& slice, std::int64_t slice_width, std::int64_t width,
                 bool transposed, std::uint64_t fault_word, Fault* fault);
struct CombinedInputGrad {
  const float *moments = nullptr, *statistics = nullptr, *products = nullptr;
  const float* weights = nullptr;  ///< Null: all are 1.
  std::int64_t tokens = 0, slices = 0, width = 0;
  float scale = 1;
};
void cross_entropy_combined_input_grad(StreamHandle stream, DType type,
                                       const CombinedInputGrad& from, const void* targets,
                                       void* dx);
/// Doubles of work space that squared_error takes.
std::int64_t squared_error_workspace(std::int64_t size);
void squared_error(StreamHandle stream, DType type, const void* x, const float* target, float* loss,
                   std::int64_t size, double scale, bool accumulate, double* workspace);

// --- embedding ---

/// The rows of a table that are here: [first, first + count) of `real`, and padding.
struct TableSlice {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t real = 0;
  std::int64_t columns = 0;
};
/// Zeros for ids whose rows are elsewhere.
void embedding(StreamHandle stream, DType type, const void* table, const std::int32_t* ids, void* y,
               std::int64_t tokens, const TableSlice& slice, std::uint64_t fault_word,
               Fault* fault);
/// 64-bit words of work space.
std::int64_t embedding_grad_workspace(std::int64_t tokens);
/// Adds every row of dy[tokens, columns] to the row of its id, where that is here, in the order of
/// the tokens. The table holds zeros, or what to add to.
void embedding_grad(StreamHandle stream, DType type, const std::int32_t* ids, const void* dy,
                    float* dtable, std::int64_t tokens, const TableSlice& slice,
                    std::uint64_t* workspace, std::uint64_t fault_word, Fault* fault);

// --- products ---

/// What a fused product does with its sums before it writes them.
enum class Epilogue : std::uint8_t {
  kNone,
  kGelu,      ///< c = gelu(sum); the sum goes to `gelu_input` unless that is null
  kGeluGrad,  ///< c = gelu'(gelu_input) * sum
};

/// c[m, n] = a * b (+ bias[n]) (+ c). Matrices are dense and row-major: a is [m, k], or [k, m]
/// where it is transposed; b is [k, n], or [n, k]. a, b and bias have one element type, c that or
/// f32. Sums are float.
struct MatrixProduct {
  DType in = DType::kF32, out = DType::kF32;
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void* c = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;

  // Of fused products (Backend::multiply_fused) alone.
  const void* addend = nullptr;  ///< [m, n] as c; added to the sum. Not with `accumulate`.
  Epilogue epilogue = Epilogue::kNone;
  void* gelu_input = nullptr;   ///< [m, n] as c.
  float* b_row_sums = nullptr;  ///< [n]: receives the sum of b's rows, where c is f32.
};

/// Weft's own kernel, for products that cuBLASLt does not do.
void matrix_product(StreamHandle stream, const MatrixProduct& product);

// --- attention ---

/// y = softmax(scale * q k^T) v per batch entry and head. Element (b, row, head, d) of a tensor
/// lies at b * batch_stride + row * row_stride + head * head_dim + d; k and v lie alike, and
/// gradients lie as what they are the gradients of; dy lies as y. The statistics,
/// log sum exp(scale * q k^T) of each row, are dense floats [batch, heads, queries].
struct Attention {
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, head_dim = 0;
  bool causal = false;  ///< Query i sees keys up to i.
  std::int64_t q_batch = 0, q_row = 0, k_batch = 0, k_row = 0, y_batch = 0, y_row = 0;
};
struct AttentionGradTensors {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *y = nullptr, *dy = nullptr;
  const float* statistics = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};
/// The widest head that fits into `shared_bytes` of a block's shared memory.
std::int64_t attention_max_head_dim(std::size_t shared_bytes);
void attention(StreamHandle stream, DType type, const Attention& shape, const void* q,
               const void* k, const void* v, void* y, float* statistics, std::size_t shared_bytes);
/// Work space: batch * heads * queries floats.
void attention_grad(StreamHandle stream, DType type, const Attention& shape,
                    const AttentionGradTensors& tensors, float* workspace,
                    std::size_t shared_bytes);

// --- optimizer ---

void adamw(StreamHandle stream, const AdamW& step, std::span<const OptimizedParameter> parameters);
/// Doubles of work space.
std::int64_t sums_of_squares_workspace(std::span<const std::span<const float>> tensors);
/// results[i] = sum of squares of tensors[i].
void sums_of_squares(StreamHandle stream, std::span<const std::span<const float>> tensors,
                     double* results, double* workspace);

}  // namespace weft::cuda
