#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/device/tensor_ref.h"

namespace weft {

/// One AdamW step (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019,
/// algorithm 2) on some parameters:
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
  double weight_decay = 0;    ///< Of parameters that decay.
  std::int64_t step = 1;      ///< Counts steps from 1, those whose update was skipped among them.
  double gradient_scale = 1;  ///< The factor of gradient clipping.
};

/// What AdamW reads and writes of one parameter. All of one number of elements.
struct OptimizedParameter {
  std::span<const float> gradient;
  std::span<float> value;
  std::span<float> first_moment, second_moment;
  bool decay = true;  ///< False for biases and norms: no weight decay.
  /// The copy of the value that ops read, in their element type, rounded to nearest even. No data:
  /// they read `value` itself.
  TensorRef working = {};
};

/// What the optimizer keeps of a parameter, and checkpoints hold, all f32.
enum class StateBlock : std::uint8_t { kValue, kFirstMoment, kSecondMoment };

/// Consecutive elements of one block of a parameter, as they travel between devices and files.
struct StatePiece {
  std::size_t parameter = 0;  ///< In the graph's list of parameters.
  StateBlock block = StateBlock::kValue;
  std::size_t first = 0;  ///< Element.
};
using TakePiece = std::function<void(const StatePiece& piece, std::span<const float> values)>;
using GivePiece = std::function<void(const StatePiece& piece, std::span<float> values)>;

/// min(1, clip_norm / norm): the factor that limits the norm of all gradients together. No limit if
/// clip_norm is 0. Only for a norm that is finite: with any other the caller skips the update,
/// since no factor mends a gradient that is NaN or infinite.
double clip_factor(double norm, double clip_norm);

}  // namespace weft
