#pragma once

// Cross entropy and squared error with their gradients. One block per row of logits. Each thread
// keeps a running maximum and sum of exponentials (online softmax, Milakov and Gimelshein 2018), so
// that a row is read once forward, and no probabilities are stored. The gradient copies a row that
// fits into shared memory there while it sums, and reads longer rows twice. It also gives the loss,
// if wanted. Rows with an odd number
// of logits may not start at a multiple of 16 bytes: elements before the first such address and
// after the last are processed one by one. Sums over rows are in double, in a fixed order. See
// core/ops/cross_entropy.cc for the formulas.
//
// All kernels give a thread the same columns of a row, in the same order, and state which products
// and sums are fused. So the loss has the same bits with the gradient and without.
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kLossThreads = 512;
inline constexpr int kLossWarps = kLossThreads / static_cast<int>(kWarp);

/// Adds `value` over the block in a fixed order. All threads get the result. `shared` has
/// kLossWarps elements.
template <typename T>
__device__ __forceinline__ T sum_block(T value, T* shared) {
  value = sum_lanes(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  T total = 0;
  for (int warp = 0; warp < kLossWarps; ++warp) total += shared[warp];
  return total;
}

/// Sum of exp(x - maximum).
struct ExponentialSum {
  float maximum, sum;

  __device__ __forceinline__ void add(float other_maximum, float other_sum) {
    const float larger = fmaxf(maximum, other_maximum);
    if (larger == -INFINITY) return;  // both are empty
    sum = fmaf(sum, __expf(maximum - larger), other_sum * __expf(other_maximum - larger));
    maximum = larger;
  }

  template <typename T, int N>
  __device__ __forceinline__ void add(const Pack<T, N>& values) {
    float larger = maximum;
    for (int i = 0; i < N; ++i) larger = fmaxf(larger, values[i]);
    if (larger == -INFINITY) return;
    float terms = 0;
    for (int i = 0; i < N; ++i) terms += __expf(values[i] - larger);
    sum = fmaf(sum, __expf(maximum - larger), terms);
    maximum = larger;
  }
};

__device__ __forceinline__ ExponentialSum add_over_block(ExponentialSum own,
                                                         ExponentialSum* shared) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const float maximum = __shfl_xor_sync(kAllLanes, own.maximum, distance),
                sum = __shfl_xor_sync(kAllLanes, own.sum, distance);
    own.add(maximum, sum);
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = own;
  __syncthreads();
  ExponentialSum total{-INFINITY, 0};
  for (int warp = 0; warp < kLossWarps; ++warp) total.add(shared[warp].maximum, shared[warp].sum);
  return total;
}

/// Returns the number of elements of a row before its first whole pack: all elements unless `wide`,
/// as when two rows processed together have different alignments.
template <typename T>
__device__ __forceinline__ std::int64_t elements_before_packs(const T* row, std::int64_t columns,
                                                              bool wide) {
  if (!wide) return columns;
  const std::int64_t misaligned = reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T);
  const std::int64_t before = misaligned == 0 ? 0 : kPackElements<T> - misaligned;
  return before < columns ? before : columns;
}

/// This thread's part of a row: single elements up to `before`, packs up to `packs_end`, then
/// single elements.
template <typename T>
struct RowPart {
  static constexpr std::int64_t kStride = std::int64_t{kLossThreads} * kPackElements<T>;
  std::int64_t columns, before, packs_end;

  __device__ __forceinline__ RowPart(const T* row, std::int64_t column_count, bool wide)
      : columns(column_count),
        before(elements_before_packs(row, columns, wide)),
        packs_end(before + (columns - before) / kPackElements<T> * kPackElements<T>) {}

  __device__ __forceinline__ std::int64_t first_pack() const {
    return before + static_cast<std::int64_t>(threadIdx.x) * kPackElements<T>;
  }
  /// Calls f(column) for the single elements before the packs, or after them.
  template <typename F>
  __device__ __forceinline__ void for_elements_before(F f) const {
    for (std::int64_t c = threadIdx.x; c < before; c += kLossThreads) f(c);
  }
  template <typename F>
  __device__ __forceinline__ void for_elements_after(F f) const {
    for (std::int64_t c = packs_end + threadIdx.x; c < columns; c += kLossThreads) f(c);
  }
};

/// Calls f(PackSize<N>(), column) for this thread's packs and single elements of the row.
template <typename T, typename F>
__device__ __forceinline__ void for_row(const T* row, std::int64_t columns, bool wide, F f) {
  const RowPart<T> part(row, columns, wide);
  const auto single = [&](std::int64_t c) { f(PackSize<1>(), c); };
  part.for_elements_before(single);
#pragma unroll 2
  for (std::int64_t c = part.first_pack(); c < part.packs_end; c += RowPart<T>::kStride)
    f(PackSize<kPackElements<T>>(), c);
  part.for_elements_after(single);
}

template <typename T>
__device__ __forceinline__ ExponentialSum exponential_sum_of_row(const T* row, std::int64_t columns,
                                                                 bool wide,
                                                                 ExponentialSum* shared) {
  ExponentialSum own{-INFINITY, 0};
  for_row(row, columns, wide,
          [&](auto n, std::int64_t c) { own.add(load<decltype(n)::value>(row + c)); });
  return add_over_block(own, shared);
}

/// Packs that a thread copies ahead of its sums: 64 KiB per block, two blocks per multiprocessor.
/// An H100 has about 20 KB per multiprocessor under way at 2.7 TB/s (0.9 us from request to
/// arrival), so that the other block may store or wait at a barrier meanwhile.
inline constexpr int kCopiesInFlight = 8;

/// Returns the row's place in shared memory. It has the row's alignment, so that both have the
/// same packs.
template <typename T>
__device__ __forceinline__ T* staged_row(const T* row) {
  return dynamic_shared<T>() + reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T);
}
template <typename T>
std::size_t staged_row_bytes(std::int64_t columns) {
  return columns * sizeof(T) + 16;
}

/// Copies the row to `staged` and returns its sum. Each thread copies the elements that for_row
/// gives it, so it needs no barrier to read them again.
template <typename T>
__device__ __forceinline__ ExponentialSum stage_row(const T* row, T* staged, std::int64_t columns,
                                                    bool wide, ExponentialSum* shared) {
  constexpr int kN = kPackElements<T>;
  const RowPart<T> part(row, columns, wide);
  std::int64_t to_copy = part.first_pack();
  const auto copy_next = [&] {
    if (to_copy < part.packs_end) __pipeline_memcpy_async(staged + to_copy, row + to_copy, 16);
    __pipeline_commit();  // an empty group counts too
    to_copy += RowPart<T>::kStride;
  };
  for (int i = 0; i < kCopiesInFlight; ++i) copy_next();
  ExponentialSum own{-INFINITY, 0};
  const auto single = [&](std::int64_t c) {
    staged[c] = row[c];
    own.add(load<1>(row + c));
  };
  part.for_elements_before(single);
  for (std::int64_t c = part.first_pack(); c < part.packs_end; c += RowPart<T>::kStride) {
    copy_next();
    __pipeline_wait_prior(kCopiesInFlight);
    own.add(load<kN>(staged + c));
  }
  part.for_elements_after(single);
  return add_over_block(own, shared);
}

/// Returns true if the target is a column of the row; otherwise reports it in `fault`.
__device__ __forceinline__ bool target_fits(std::int32_t target, std::int64_t columns,
                                            std::uint64_t fault_word, FaultWord* fault) {
  if (target >= 0 && target < columns) return true;
  if (threadIdx.x == 0) *fault = fault_word | static_cast<std::uint32_t>(target);
  return false;
}

__device__ __forceinline__ float row_loss(const ExponentialSum& total, float target_logit,
                                          const float* weights, std::int64_t row) {
  const float loss = total.maximum - target_logit + logf(total.sum);
  return weights != nullptr ? weights[row] * loss : loss;
}

template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_kernel(const T* logits, const std::int32_t* targets, const float* weights,
                         float* row_losses, std::int64_t columns, bool wide,
                         std::uint64_t fault_word, FaultWord* fault) {
  __shared__ ExponentialSum shared[kLossWarps];
  const std::int64_t row = blockIdx.x;
  const T* const x = logits + row * columns;
  const ExponentialSum total = exponential_sum_of_row(x, columns, wide, shared);
  if (threadIdx.x != 0) return;
  const std::int32_t target = targets[row];
  row_losses[row] = target_fits(target, columns, fault_word, fault)
                        ? row_loss(total, to_float(x[target]), weights, row)
                        : 0;
}

/// Computes *to = scale * sum of the values (+ *to) with one block.
template <typename Value>
__global__ void __launch_bounds__(kLossThreads)
    scaled_sum_kernel(const Value* values, std::int64_t size, double scale, float* to,
                      bool accumulate) {
  __shared__ double shared[kLossWarps];
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < size; i += kLossThreads)
    sum += static_cast<double>(values[i]);
  const double total = sum_block(sum, shared);
  if (threadIdx.x == 0) *to = static_cast<float>(scale * total) + (accumulate ? *to : 0.0f);
}

/// kStaged: the row fits into shared memory. Writes the rows' losses too unless `row_losses` is
/// null.
template <typename T, bool kStaged>
__global__ void __launch_bounds__(kLossThreads, 2)
    cross_entropy_grad_kernel(const T* logits, const std::int32_t* targets, const float* weights,
                              T* dlogits, float* row_losses, std::int64_t columns, bool wide,
                              float scale, std::uint64_t fault_word, FaultWord* fault) {
  __shared__ ExponentialSum shared[kLossWarps];
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * columns;
  T* const dx = dlogits + row * columns;
  const std::int32_t target = targets[row];
  const bool fits = target_fits(target, columns, fault_word, fault);
  const float factor = !fits ? 0.0f : weights != nullptr ? scale * weights[row] : scale;
  // Read before the sum's barriers, after which dlogits may overwrite the logits.
  const bool writes_loss = row_losses != nullptr && threadIdx.x == 0;
  const float target_logit = writes_loss && fits ? to_float(x[target]) : 0;
  ExponentialSum total;
  if constexpr (kStaged) {
    T* const staged = staged_row(x);
    total = stage_row(x, staged, columns, wide, shared);
    x = staged;
  } else {
    total = exponential_sum_of_row(x, columns, wide, shared);
  }
  if (writes_loss) row_losses[row] = fits ? row_loss(total, target_logit, weights, row) : 0;
  const float inverse_sum = 1.0f / total.sum;
  for_row(x, columns, wide, [&](auto n, std::int64_t c) {
    constexpr int kN = decltype(n)::value;
    const Pack<T, kN> values = load<kN>(x + c);
    Pack<T, kN> result;
    for (int i = 0; i < kN; ++i) {
      const float probability = __expf(values[i] - total.maximum) * inverse_sum;
      result.set(i, factor * (c + i == target ? probability - 1.0f : probability));
    }
    store<kN>(dx + c, result);
  });
}

void cross_entropy(StreamHandle stream, DType type, const void* logits, const std::int32_t* targets,
                   const float* weights, float* loss, std::int64_t rows, std::int64_t columns,
                   double scale, bool accumulate, float* workspace, std::uint64_t fault_word,
                   FaultWord* fault) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    launch(stream, "cross_entropy", {static_cast<unsigned>(rows), kLossThreads},
           cross_entropy_kernel<T>, static_cast<const T*>(logits), targets, weights, workspace,
           columns, true, fault_word, fault);
  });
  launch(stream, "cross_entropy", {1, kLossThreads}, scaled_sum_kernel<float>, workspace, rows,
         scale, loss, accumulate);
}

void cross_entropy_grad(StreamHandle stream, DType type, const void* logits,
                        const std::int32_t* targets, const float* weights, void* dlogits,
                        float* loss, std::int64_t rows, std::int64_t columns, double scale,
                        std::size_t shared_bytes, float* workspace, std::uint64_t fault_word,
                        FaultWord* fault) {
  float* const row_losses = loss != nullptr ? workspace : nullptr;
  const bool wide = reinterpret_cast<std::uintptr_t>(logits) % 16 ==
                    reinterpret_cast<std::uintptr_t>(dlogits) % 16;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const std::size_t staged = staged_row_bytes<T>(columns);
    const bool fits = staged + kLossWarps * sizeof(ExponentialSum) <= shared_bytes;
    launch(stream, "cross_entropy_grad",
           {static_cast<unsigned>(rows), kLossThreads, fits ? staged : 0},
           fits ? cross_entropy_grad_kernel<T, true> : cross_entropy_grad_kernel<T, false>,
           static_cast<const T*>(logits), targets, weights, static_cast<T*>(dlogits), row_losses,
           columns, wide, static_cast<float>(scale), fault_word, fault);
  });
  if (loss == nullptr) return;
  launch(stream, "cross_entropy_grad", {1, kLossThreads}, scaled_sum_kernel<float>, workspace, rows,
         scale, loss, false);
}

inline constexpr std::int64_t kErrorsPerBlock = 8 * kLossThreads;

template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    squared_error_kernel(const T* x, const float* target, std::int64_t size, double* partial) {
  __shared__ double shared[kLossWarps];
  const std::int64_t begin = blockIdx.x * kErrorsPerBlock;
  const std::int64_t end = begin + kErrorsPerBlock < size ? begin + kErrorsPerBlock : size;
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kLossThreads) {
    const double difference = static_cast<double>(to_float(x[i])) - target[i];
    sum += difference * difference;
  }
  const double total = sum_block(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

std::int64_t squared_error_workspace(std::int64_t size) {
  return (size + kErrorsPerBlock - 1) / kErrorsPerBlock;
}

void squared_error(StreamHandle stream, DType type, const void* x, const float* target, float* loss,
                   std::int64_t size, double scale, bool accumulate, double* workspace) {
  const std::int64_t blocks = squared_error_workspace(size);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    launch(stream, "squared_error", {static_cast<unsigned>(blocks), kLossThreads},
           squared_error_kernel<T>, static_cast<const T*>(x), target, size, workspace);
  });
  launch(stream, "squared_error", {1, kLossThreads}, scaled_sum_kernel<double>, workspace, blocks,
         scale, loss, accumulate);
}

}  // namespace weft::cuda
