#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/cuda/internal/backend.h"

namespace weft::cuda {

/// Matrix products by cuBLASLt. Of each size and alignment the library is asked once which of its
/// algorithms is best; what it answers depends on these and the GPU alone, so results do too. The
/// only place that calls cuBLASLt. One thread at a time; serves one stream, whose products share
/// the work space.
class CublasLtProducts final {
 public:
  /// With `tf32`, factors of f32 products may be rounded to 10 bits of mantissa.
  /// `note` is told which products the library has no algorithm for, and why.
  explicit CublasLtProducts(
      bool tf32, std::function<void(const std::string&)> note = [](const std::string&) {});
  ~CublasLtProducts();

  /// False, and nothing queued, if the library has no algorithm for the product.
  bool multiply(const MatrixProduct& product, StreamHandle stream);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cuda
