#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/cuda/internal/launches.h"

namespace weft::cuda {

struct CublasLtOptions {
  bool tf32 = false;  ///< Allows rounding the factors of f32 products to 10 mantissa bits.
  /// Requires equal bits in each run. Without a file, products are then not measured.
  bool deterministic = true;
  /// Times the library's algorithms once per product, and uses the fastest; else its first answer.
  bool measure = false;
  std::filesystem::path choices = {};  ///< File with the choices of all processes.
  /// Called with each product for which the library has no algorithm, and with the reason why a
  /// choice could not be measured or stored.
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

/// Matrix products by cuBLASLt. Chooses an algorithm once per size and alignment (ProductKey) and
/// uses it as long as this object exists: the library's first answer, or the fastest of several,
/// which a file keeps for later runs. So results are reproducible. Only cublaslt_*.cc compute with
/// cuBLASLt. Serves one stream, whose products share the work space. Not thread-safe.
class CublasLtProducts final {
 public:
  explicit CublasLtProducts(CublasLtOptions options);
  ~CublasLtProducts();

  /// Queues a product without epilogue of its own. Returns false and queues nothing if the library
  /// has no algorithm for it.
  bool multiply(const MatrixProduct& product, StreamHandle stream);

  /// Queues a product in two parts. Called with the product to be queued later, or with the same
  /// product of other memory.
  using TwoParts = std::function<void(const MatrixProduct&)>;
  /// Queues a fused product. Returns false if the library has no algorithm for it or `two_parts`
  /// was faster; the caller then queues two parts. Results in the product's memory may have been
  /// overwritten by measuring.
  bool multiply_fused(const MatrixProduct& product, StreamHandle stream, const TwoParts& two_parts);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cuda
