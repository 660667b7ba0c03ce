#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/device/tensor_ref.h"

namespace weft {

/// AdamW step (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019, algorithm 2)
/// on some parameters:
///   g = gradient_scale * gradient
///   m = beta1 m + (1 - beta1) g
///   v = beta2 v + (1 - beta2) g^2
///   p -= learning_rate * (m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon)
///                         + weight_decay * p)
struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;    ///< Applies to parameters with `decay`.
  std::int64_t step = 1;      ///< Step number, from 1; skipped updates count.
  double gradient_scale = 1;  ///< Factor from gradient clipping.
};

/// Memory of one parameter that AdamW reads and writes. All spans have the same length.
struct AdamWParameter {
  std::span<const float> gradient;
  std::span<float> value;
  std::span<float> first_moment, second_moment;
  bool decay = true;  ///< False for biases and norms: no weight decay.
  /// Copy of the value that ops read, in their element type, rounded to nearest even. Without data
  /// if ops read `value` itself.
  TensorRef working = {};
};

/// State of a parameter that the optimizer keeps and checkpoints store; all f32.
enum class StateBlock : std::uint8_t { kValue, kFirstMoment, kSecondMoment };

/// Consecutive elements of one state block of a parameter, as moved between devices and files.
struct StateSlice {
  std::size_t parameter = 0;  ///< Index in the graph's list of parameters.
  StateBlock block = StateBlock::kValue;
  std::size_t first = 0;  ///< Index of the first element.
};
using ReadStateSlice = std::function<void(const StateSlice& piece, std::span<const float> values)>;
using WriteStateSlice = std::function<void(const StateSlice& piece, std::span<float> values)>;

/// Returns min(1, clip_norm / norm), the factor that clips the global gradient norm; 1 if clip_norm
/// is 0. `norm` must be finite: otherwise the caller must skip the update, as scaling cannot fix
/// NaN or infinite gradients.
double clip_factor(double norm, double clip_norm);

}  // namespace weft
