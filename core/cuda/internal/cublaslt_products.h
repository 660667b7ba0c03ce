#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/cuda/internal/backend.h"

namespace weft::cuda {

/// Matrix products by cuBLASLt. The library is asked for its best algorithm once per size and
/// alignment. The answer depends on these and the GPU only, so results are reproducible. Only this
/// class calls cuBLASLt. Serves one stream, whose products share the work space. Not thread-safe.
class CublasLtProducts final {
 public:
  /// `tf32` allows rounding the factors of f32 products to 10 mantissa bits. `note` is called with
  /// each product for which the library has no algorithm, and the reason.
  explicit CublasLtProducts(
      bool tf32, std::function<void(const std::string&)> note = [](const std::string&) {});
  ~CublasLtProducts();

  /// Queues a product. Returns false and queues nothing if the library has no algorithm for it.
  bool multiply(const MatrixProduct& product, StreamHandle stream);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cuda
