#pragma once

// Pictures [batch, height, width, channels]: copies and sums of whole pixels. One thread per pack
// of output channels. If the channels are not a multiple of a pack or addresses are unaligned,
// packs have one element.
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kPictureThreads = 256;

/// Returns the index of this thread's pack, in elements; at least `size` if there is none.
template <int N>
__device__ __forceinline__ std::int64_t pack_begin() {
  return (static_cast<std::int64_t>(blockIdx.x) * kPictureThreads + threadIdx.x) * N;
}

/// Position of an element in a picture.
struct PicturePosition {
  std::int64_t batch, row, column, channel;
};
__device__ __forceinline__ PicturePosition place_of(std::int64_t index,
                                                    const PictureShape& picture) {
  const Quotient pixel = divide(index, picture.channels);
  const Quotient line = divide(pixel.quotient, picture.width);
  const Quotient image = divide(line.quotient, picture.height);
  return {image.quotient, image.remainder, line.remainder, pixel.remainder};
}
__device__ __forceinline__ std::int64_t index_of(const PicturePosition& at,
                                                 const PictureShape& picture) {
  return ((at.batch * picture.height + at.row) * picture.width + at.column) * picture.channels +
         at.channel;
}

__device__ __forceinline__ std::int64_t size_of_picture(const PictureShape& p) {
  return p.batch * p.height * p.width * p.channels;
}

template <typename T, int N>
__global__ void upsample_kernel(const T* x, T* y, PictureShape small, PictureShape large,
                                std::int64_t factor) {
  const std::int64_t i = pack_begin<N>();
  if (i >= size_of_picture(large)) return;
  PicturePosition at = place_of(i, large);
  at.row = divide(at.row, factor).quotient;
  at.column = divide(at.column, factor).quotient;
  store<N>(y + i, load<N>(x + index_of(at, small)));
}

template <typename T, int N>
__global__ void upsample_grad_kernel(const T* dy, T* dx, PictureShape small, PictureShape large,
                                     std::int64_t factor) {
  const std::int64_t i = pack_begin<N>();
  if (i >= size_of_picture(small)) return;
  const PicturePosition at = place_of(i, small);
  float sums[N] = {};
  for (std::int64_t p = 0; p < factor; ++p) {
    for (std::int64_t q = 0; q < factor; ++q) {
      const PicturePosition from{at.batch, at.row * factor + p, at.column * factor + q, at.channel};
      const Pack<T, N> values = load<N>(dy + index_of(from, large));
      for (int n = 0; n < N; ++n) sums[n] += values[n];
    }
  }
  Pack<T, N> result;
  for (int n = 0; n < N; ++n) result.set(n, sums[n]);
  store<N>(dx + i, result);
}

template <typename T, int N>
__global__ void copy_columns_kernel(const T* from, std::int64_t from_columns, T* to,
                                    std::int64_t to_columns, std::int64_t rows,
                                    std::int64_t count) {
  const std::int64_t i = pack_begin<N>();
  if (i >= rows * count) return;
  const Quotient row = divide(i, count);
  store<N>(to + row.quotient * to_columns + row.remainder,
           load<N>(from + row.quotient * from_columns + row.remainder));
}

template <typename T, int N>
__global__ void picture_to_columns_kernel(const T* x, T* columns, ConvolutionShape w) {
  const std::int64_t i = pack_begin<N>();
  const std::int64_t kernel = w.kernel_height * w.kernel_width;
  if (i >= w.x.batch * w.out_height * w.out_width * kernel * w.x.channels) return;
  const Quotient channel = divide(i, w.x.channels);
  // The quotient is the pixel of y; the remainder is p * kernel_width + q.
  const Quotient tap = divide(channel.quotient, kernel);
  const Quotient kernel_at = divide(tap.remainder, w.kernel_width);
  const Quotient column = divide(tap.quotient, w.out_width);
  const Quotient row = divide(column.quotient, w.out_height);
  const PicturePosition at{row.quotient, row.remainder * w.stride + kernel_at.quotient - w.padding,
                           column.remainder * w.stride + kernel_at.remainder - w.padding,
                           channel.remainder};
  Pack<T, N> values{};
  if (at.row >= 0 && at.row < w.x.height && at.column >= 0 && at.column < w.x.width)
    values = load<N>(x + index_of(at, w.x));
  store<N>(columns + i, values);
}

/// Returns, for one dimension, the position of y whose window has `at` under its tap; -1 if none.
__device__ __forceinline__ std::int64_t output_under(std::int64_t at, std::int64_t tap,
                                                     std::int64_t stride, std::int64_t padding,
                                                     std::int64_t out_size) {
  const std::int64_t reach = at + padding - tap;
  if (reach < 0) return -1;
  const Quotient place = divide(reach, stride);
  return place.remainder == 0 && place.quotient < out_size ? place.quotient : -1;
}

template <typename T, int N>
__global__ void columns_to_picture_kernel(const float* columns, T* dx, ConvolutionShape w) {
  const std::int64_t i = pack_begin<N>();
  if (i >= size_of_picture(w.x)) return;
  const PicturePosition at = place_of(i, w.x);
  float sums[N] = {};
  for (std::int64_t p = 0; p < w.kernel_height; ++p) {
    const std::int64_t row = output_under(at.row, p, w.stride, w.padding, w.out_height);
    if (row < 0) continue;
    for (std::int64_t q = 0; q < w.kernel_width; ++q) {
      const std::int64_t column = output_under(at.column, q, w.stride, w.padding, w.out_width);
      if (column < 0) continue;
      const std::int64_t pixel = (at.batch * w.out_height + row) * w.out_width + column;
      const std::int64_t tap = (pixel * w.kernel_height + p) * w.kernel_width + q;
      const Pack<float, N> values = load<N>(columns + tap * w.x.channels + at.channel);
      for (int n = 0; n < N; ++n) sums[n] += values[n];
    }
  }
  Pack<T, N> result;
  for (int n = 0; n < N; ++n) result.set(n, sums[n]);
  store<N>(dx + i, result);
}

inline constexpr int kTransposeTile = 32;
inline constexpr int kTransposeWarps = 8;

/// Transposes with one block per tile of 32 x 32 in shared memory, so that both sides are accessed
/// by rows.
template <typename In, typename Out>
__global__ void transpose_kernel(const In* from, Out* to, std::int64_t rows, std::int64_t columns,
                                 bool accumulate) {
  __shared__ float tile[kTransposeTile][kTransposeTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kTransposeTile;
  for (std::int64_t first = std::int64_t{blockIdx.y} * kTransposeTile; first < columns;
       first += std::int64_t{gridDim.y} * kTransposeTile) {
    __syncthreads();
    for (int i = y; i < kTransposeTile; i += kTransposeWarps) {
      if (first_row + i < rows && first + x < columns)
        tile[i][x] = to_float(from[(first_row + i) * columns + first + x]);
    }
    __syncthreads();
    for (int i = y; i < kTransposeTile; i += kTransposeWarps) {
      if (first + i >= columns || first_row + x >= rows) continue;
      Out* const at = to + (first + i) * rows + first_row + x;
      *at = from_float<Out>(accumulate ? to_float(*at) + tile[x][i] : tile[x][i]);
    }
  }
}

void transpose(StreamHandle stream, DType in, DType out, const void* from, void* to,
               std::int64_t rows, std::int64_t columns, bool accumulate) {
  const std::int64_t tiles = (columns + kTransposeTile - 1) / kTransposeTile;
  const LaunchShape shape{dim3(blocks_for(rows, kTransposeTile), tiles < 65535 ? tiles : 65535),
                          dim3(kTransposeTile, kTransposeWarps)};
  with_type(in, [&](auto from_type) {
    with_type(out, [&](auto to_type) {
      using In = decltype(from_type);
      using Out = decltype(to_type);
      if constexpr (sizeof(Out) >= sizeof(In)) {
        launch(stream, "transpose", shape, transpose_kernel<In, Out>, static_cast<const In*>(from),
               static_cast<Out*>(to), rows, columns, accumulate);
      }
    });
  });
}

/// Calls run(T(), PackSize<N>(), launch shape) for an output of `size` elements in runs of
/// `channels`.
template <typename F>
void with_pixels(DType type, std::int64_t size, bool is_aligned, std::int64_t channels, F run) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_pack<T>(is_aligned && channels % kPackElements<T> == 0, [&](auto n) {
      run(t, n,
          LaunchShape{blocks_for(size, std::int64_t{kPictureThreads} * decltype(n)::value),
                      kPictureThreads});
    });
  });
}

void upsample(StreamHandle stream, DType type, const void* small, void* large, PictureShape x,
              std::int64_t factor) {
  const PictureShape y{x.batch, x.height * factor, x.width * factor, x.channels};
  with_pixels(type, y.elements(), aligned(small) && aligned(large), x.channels,
              [&](auto t, auto n, const LaunchShape& shape) {
                using T = decltype(t);
                launch(stream, "upsample", shape, upsample_kernel<T, decltype(n)::value>,
                       static_cast<const T*>(small), static_cast<T*>(large), x, y, factor);
              });
}

void upsample_grad(StreamHandle stream, DType type, const void* large, void* small, PictureShape x,
                   std::int64_t factor) {
  const PictureShape y{x.batch, x.height * factor, x.width * factor, x.channels};
  with_pixels(type, x.elements(), aligned(small) && aligned(large), x.channels,
              [&](auto t, auto n, const LaunchShape& shape) {
                using T = decltype(t);
                launch(stream, "upsample_grad", shape, upsample_grad_kernel<T, decltype(n)::value>,
                       static_cast<const T*>(large), static_cast<T*>(small), x, y, factor);
              });
}

void copy_columns(StreamHandle stream, DType type, const void* from, std::int64_t from_columns,
                  std::int64_t from_begin, void* to, std::int64_t to_columns, std::int64_t to_begin,
                  std::int64_t rows, std::int64_t count) {
  const auto at = [&](auto* base, std::int64_t begin) {
    return base + begin * static_cast<std::int64_t>(size_of(type));
  };
  const char* const first = at(static_cast<const char*>(from), from_begin);
  char* const to_first = at(static_cast<char*>(to), to_begin);
  const std::int64_t wide = type == DType::kBF16 ? kPackElements<Bf16> : kPackElements<float>;
  const bool rows_aligned = from_columns % wide == 0 && to_columns % wide == 0;
  with_pixels(type, rows * count, rows_aligned && aligned(first) && aligned(to_first), count,
              [&](auto t, auto n, const LaunchShape& shape) {
                using T = decltype(t);
                launch(stream, "copy_columns", shape, copy_columns_kernel<T, decltype(n)::value>,
                       reinterpret_cast<const T*>(first), from_columns,
                       reinterpret_cast<T*>(to_first), to_columns, rows, count);
              });
}

void picture_to_columns(StreamHandle stream, DType type, const void* x, void* columns,
                        const ConvolutionShape& window) {
  const std::int64_t size = window.x.batch * window.out_height * window.out_width *
                            window.kernel_height * window.kernel_width * window.x.channels;
  with_pixels(type, size, aligned(x) && aligned(columns), window.x.channels,
              [&](auto t, auto n, const LaunchShape& shape) {
                using T = decltype(t);
                launch(stream, "picture_to_columns", shape,
                       picture_to_columns_kernel<T, decltype(n)::value>, static_cast<const T*>(x),
                       static_cast<T*>(columns), window);
              });
}

void columns_to_picture(StreamHandle stream, DType type, const float* columns, void* dx,
                        const ConvolutionShape& window) {
  with_pixels(type, window.x.elements(), aligned(dx) && aligned(columns), window.x.channels,
              [&](auto t, auto n, const LaunchShape& shape) {
                using T = decltype(t);
                launch(stream, "columns_to_picture", shape,
                       columns_to_picture_kernel<T, decltype(n)::value>, columns,
                       static_cast<T*>(dx), window);
              });
}

}  // namespace weft::cuda
