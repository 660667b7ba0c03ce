#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <utility>

namespace weft {

struct OneDnnEngine;

/// Sizes of a convolution; channels last, weights [kernel_height, kernel_width, in, out]. See
/// core/ops/convolution.cc.
struct ConvolutionSizes {
  std::int64_t batch, height, width, in;
  std::int64_t out_height, out_width, out;
  std::int64_t kernel_height, kernel_width, stride, padding;
  bool has_bias = false;  ///< Used by forward only.
  friend auto operator<=>(const ConvolutionSizes&, const ConvolutionSizes&) = default;
};

/// Convolutions and their gradients, using oneDNN.
///
/// Pictures stay in plain channels-last layout. Every call converts the weights, which are small,
/// to and from the layout of the primitive. Caches one compiled primitive, with its working memory,
/// per size and direction. Not thread-safe.
class Convolutions final {
 public:
  Convolutions();
  ~Convolutions();
  /// Computes y = convolution of x with w, plus bias unless null.
  void forward(const ConvolutionSizes& sizes, const float* x, const float* w, const float* bias,
               float* y);
  void input_grad(const ConvolutionSizes& sizes, const float* dy, const float* w, float* dx);
  void weight_grad(const ConvolutionSizes& sizes, const float* x, const float* dy, float* dw);

 private:
  enum class Direction : std::uint8_t { kForward, kInputGrad, kWeightGrad };
  struct CompiledConvolution;
  CompiledConvolution& compiled(Direction direction, const ConvolutionSizes& sizes);
  void run(Direction direction, const ConvolutionSizes& sizes,
           std::initializer_list<const float*> inputs, float* output);

  std::unique_ptr<OneDnnEngine> engine_;
  std::map<std::pair<Direction, ConvolutionSizes>, std::unique_ptr<CompiledConvolution>> compiled_;
};

}  // namespace weft
