#pragma once

// Kernels of VectorKernels, compiled once per instruction set into its own namespace.
#include "core/cpu/internal/vector.h"
#include "core/cpu/internal/vector_attention.h"
#include "core/cpu/internal/vector_group_norm.h"
#include "core/cpu/internal/vector_kernels.h"
#include "core/cpu/internal/vector_norm.h"
#include "core/cpu/internal/vector_softmax.h"

namespace weft::WEFT_VECTOR_NAMESPACE {
namespace {

void add_row(const float* a, const float* b, float* y, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* ar = a + r * columns;
    float* yr = y + r * columns;
    for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
      store_up_to(yr + c, load_up_to(ar + c, n) + load_up_to(b + c, n), n);
    });
  }
}

/// Adds eight rows at a time, so that y is read and written once per eight rows and stays in the L1
/// cache.
void sum_rows(const float* x, std::int64_t rows, std::int64_t columns, float* y, bool accumulate) {
  constexpr std::int64_t kUnroll = 8;
  if (!accumulate) std::memset(y, 0, columns * sizeof(float));
  std::int64_t r = 0;
  for (; r + kUnroll <= rows; r += kUnroll) {
    const float* xr = x + r * columns;
    for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
      Vector v[kUnroll];
      for (std::int64_t u = 0; u < kUnroll; ++u) v[u] = load_up_to(xr + u * columns + c, n);
      const Vector sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
      store_up_to(y + c, load_up_to(y + c, n) + sum, n);
    });
  }
  for (; r < rows; ++r) {
    const float* xr = x + r * columns;
    for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
      store_up_to(y + c, load_up_to(y + c, n) + load_up_to(xr + c, n), n);
    });
  }
}

// Constants of gelu(x) = x * sigmoid(kTwoC (x + kCubic x^3)), which equals the tanh form: 2
// sqrt(2/pi) and the cubic coefficient.
constexpr float kTwoC = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

WEFT_INLINE Vector gelu_sigmoid(Vector x) {
  const Vector u = x * (kTwoC + (kTwoC * kCubic) * (x * x));
  return 1.0f / (1.0f + exp(-u));
}

void gelu(const float* x, float* y, std::int64_t size) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    const Vector v = load_up_to(x + i, n);
    store_up_to(y + i, v * gelu_sigmoid(v), n);
  });
}

void gelu_grad(const float* x, const float* dy, float* dx, std::int64_t size) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    const Vector v = load_up_to(x + i, n);
    const Vector s = gelu_sigmoid(v);
    const Vector slope = kTwoC + (3 * kTwoC * kCubic) * (v * v);
    store_up_to(dx + i, load_up_to(dy + i, n) * (s + v * s * (1.0f - s) * slope), n);
  });
}

WEFT_INLINE Vector logistic(Vector x) { return 1.0f / (1.0f + exp(-x)); }

void silu(const float* x, float* y, std::int64_t size) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    const Vector v = load_up_to(x + i, n);
    store_up_to(y + i, v * logistic(v), n);
  });
}

void silu_grad(const float* x, const float* dy, float* dx, std::int64_t size) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    const Vector v = load_up_to(x + i, n);
    const Vector s = logistic(v);
    store_up_to(dx + i, load_up_to(dy + i, n) * (s + v * s * (1.0f - s)), n);
  });
}

void sigmoid(const float* x, float* y, std::int64_t size) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    store_up_to(y + i, logistic(load_up_to(x + i, n)), n);
  });
}

void sigmoid_grad(const float* x, const float* dy, float* dx, std::int64_t size) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    const Vector s = logistic(load_up_to(x + i, n));
    store_up_to(dx + i, load_up_to(dy + i, n) * (s * (1.0f - s)), n);
  });
}

void multiply(const float* a, const float* b, float* y, std::int64_t size) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    store_up_to(y + i, load_up_to(a + i, n) * load_up_to(b + i, n), n);
  });
}

void sum_pixel_blocks(const float* dy, std::int64_t dy_row, float* dx, std::int64_t width,
                      std::int64_t channels, std::int64_t factor) {
  for (std::int64_t j = 0; j < width; ++j) {
    for_vectors(channels, [&](std::int64_t c, std::int64_t n) {
      Vector sum{};
      for (std::int64_t p = 0; p < factor; ++p) {
        for (std::int64_t q = 0; q < factor; ++q)
          sum += load_up_to(dy + p * dy_row + (j * factor + q) * channels + c, n);
      }
      store_up_to(dx + j * channels + c, sum, n);
    });
  }
}

double squared_error(const float* a, const float* b, std::int64_t size) {
  double total = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    total += difference * difference;
  }
  return total;
}

void scaled_difference(const float* a, const float* b, float* y, std::int64_t size, float scale) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    store_up_to(y + i, (load_up_to(a + i, n) - load_up_to(b + i, n)) * scale, n);
  });
}

/// Computes each lane separately; the compiler emits one vector instruction.
WEFT_INLINE Vector square_root(Vector v) {
  Vector result;
  for (std::int64_t i = 0; i < kLanes; ++i) result[i] = __builtin_sqrtf(v[i]);
  return result;
}

void adamw(const AdamWConstants& k, float decay, const float* gradients, float* parameters,
           float* first_moment, float* second_moment, std::int64_t size) {
  for_vectors(size, [&](std::int64_t i, std::int64_t n) {
    const Vector g = load_up_to(gradients + i, n) * k.gradient_scale;
    const Vector p = load_up_to(parameters + i, n);
    const Vector m = k.beta1 * load_up_to(first_moment + i, n) + k.one_minus_beta1 * g;
    const Vector v = k.beta2 * load_up_to(second_moment + i, n) + k.one_minus_beta2 * (g * g);
    const Vector denominator = square_root(v) * k.inverse_root_correction + k.epsilon;
    store_up_to(first_moment + i, m, n);
    store_up_to(second_moment + i, v, n);
    store_up_to(parameters + i, p - decay * p - k.step_size * (m / denominator), n);
  });
}

double sum_of_squares(const float* x, std::int64_t size) {
  using HalfVector = float __attribute__((vector_size(2 * WEFT_VECTOR_FLOATS)));
  using DoubleVector = double __attribute__((vector_size(4 * WEFT_VECTOR_FLOATS)));
  constexpr std::int64_t kHalf = kLanes / 2;
  DoubleVector sums[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kHalf <= size; i += 4 * kHalf) {
    for (std::int64_t u = 0; u < 4; ++u) {
      HalfVector h;
      std::memcpy(&h, x + i + u * kHalf, sizeof h);
      const DoubleVector d = __builtin_convertvector(h, DoubleVector);
      sums[u] += d * d;
    }
  }
  const DoubleVector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double result = 0;
  for (std::int64_t lane = 0; lane < kHalf; ++lane) result += all[lane];
  for (; i < size; ++i) result += static_cast<double>(x[i]) * x[i];
  return result;
}

}  // namespace

extern const VectorKernels kKernels;
const VectorKernels kKernels{.add_row = add_row,
                             .sum_rows = sum_rows,
                             .gelu = gelu,
                             .gelu_grad = gelu_grad,
                             .silu = silu,
                             .silu_grad = silu_grad,
                             .sigmoid = sigmoid,
                             .sigmoid_grad = sigmoid_grad,
                             .multiply = multiply,
                             .group_norm = group_norm,
                             .group_norm_input_grad = group_norm_input_grad,
                             .group_norm_weight_grad = group_norm_weight_grad,
                             .sum_pixel_blocks = sum_pixel_blocks,
                             .layer_norm = layer_norm,
                             .layer_norm_input_grad = layer_norm_input_grad,
                             .layer_norm_weight_grad = layer_norm_weight_grad,
                             .layer_norm_moments = layer_norm_moments,
                             .layer_norm_apply = layer_norm_apply,
                             .layer_norm_gradient_sums = layer_norm_gradient_sums,
                             .layer_norm_apply_input_grad = layer_norm_apply_input_grad,
                             .layer_norm_apply_weight_grad = layer_norm_apply_weight_grad,
                             .attention_head = attention_head,
                             .attention_head_grad = attention_head_grad,
                             .attention_workspace = attention_workspace,
                             .cross_entropy = cross_entropy,
                             .cross_entropy_with_grad = cross_entropy_with_grad,
                             .slice_maximum_and_sum = slice_maximum_and_sum,
                             .scaled_exp = scaled_exp,
                             .squared_error = squared_error,
                             .scaled_difference = scaled_difference,
                             .adamw = adamw,
                             .sum_of_squares = sum_of_squares};

}  // namespace weft::WEFT_VECTOR_NAMESPACE
