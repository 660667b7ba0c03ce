#pragma once

#include "core/cuda/internal/backend.h"

namespace weft::cuda {

/// Computes fused products in two parts: the product alone, and Weft's own kernels for the
/// epilogue. Serves one op. Not thread-safe.
class TwoPartProduct final {
 public:
  explicit TwoPartProduct(Backend& backend) : backend_(backend) {}

  /// Queues the product. May be called several times for products of one size, which share the work
  /// space.
  void queue(const MatrixProduct& fused);

 private:
  Backend& backend_;
  float* workspace_ =
      nullptr;  ///< Work space of sums of rows. Allocated by the first such product.
};

}  // namespace weft::cuda
