#pragma once

#include <cublasLt.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cuda/internal/launches.h"

namespace weft::cuda {

/// Properties of a product on which cuBLASLt's choice of an algorithm, and its speed, depend.
struct ProductKey {
  /// Indices of `alignments`.
  enum Operand : std::uint8_t { kA, kB, kC, kAdded, kGeluInput, kVector, kOperands };

  std::int64_t m = 0, n = 0, k = 0;
  DType in = DType::kF32, out = DType::kF32;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  bool transpose_a = false, transpose_b = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  bool has_addend = false, accumulate = false;
  std::array<std::uint32_t, kOperands> alignments{};

  auto operator<=>(const ProductKey&) const = default;
};

/// Returns the key of a product; null if the library cannot compute it.
std::optional<ProductKey> product_key(const MatrixProduct& product, bool tf32);
/// Returns "4096 x 768 x 3072 of bf16 to bf16, b transposed, epilogue 164", for messages.
std::string to_string(const ProductKey& key);
/// Returns all members as text: products with equal texts have equal keys.
std::string to_full_text(const ProductKey& key);

/// Returns true for the statuses with which the library rejects a valid call.
bool is_refusal(cublasStatus_t status);

/// Product as cuBLASLt knows it: the descriptors of the operation and the matrices. Not
/// thread-safe.
class CublasLtProblem final {
 public:
  /// Work space size that NVIDIA recommends for Hopper.
  static constexpr std::size_t kWorkSpaceBytes = std::size_t{32} << 20;

  explicit CublasLtProblem(const ProductKey& key);
  ~CublasLtProblem();
  CublasLtProblem(const CublasLtProblem&) = delete;
  CublasLtProblem& operator=(const CublasLtProblem&) = delete;

  const ProductKey& key() const { return key_; }

  struct Candidates {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;  ///< Success, or a refusal.
    std::vector<cublasLtMatmulAlgo_t> algorithms;   ///< The library's best first; at most `most`.
  };
  /// Returns the algorithms that the library proposes. Their results are reproducible.
  Candidates candidates(cublasLtHandle_t library, int most) const;
  /// Returns true if the algorithm can compute this product.
  bool accepts(cublasLtHandle_t library, const cublasLtMatmulAlgo_t& algorithm) const;
  /// Queues `product`, which must have the problem's key.
  cublasStatus_t queue(cublasLtHandle_t library, const MatrixProduct& product,
                       const cublasLtMatmulAlgo_t& algorithm, void* work_space,
                       StreamHandle stream);

 private:
  void destroy();

  const ProductKey key_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
};

}  // namespace weft::cuda
