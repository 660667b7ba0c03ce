#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

/// Test double of cuBLASLt on the CPU: the functions of <cublasLt.h> that Weft calls, after
/// NVIDIA's documentation of CUDA 13, on the test's own memory. Matrices are column-major; D =
/// alpha op(A) op(B) + beta C, then the epilogue. Calls are synchronous.
///
/// It is as strict as the documentation, and stricter where the real library fails only on a GPU.
/// Attributes have their exact sizes. An algorithm only serves the problem that it was found for.
/// Pointers have the alignments given to the heuristic; of bias and auxiliary matrix it checks the
/// pointers. An algorithm's work space exists, at a multiple of 256 bytes, and is overwritten.
/// Tests choose the number of algorithms, and the time that each takes on the double's clock.
/// Other types, epilogues and attributes than Weft uses are not supported.
namespace weft::test {

struct CublasLtDouble {
  /// Time of an algorithm that cublasLtMatmul refuses, although the heuristic proposes it.
  static constexpr double kRefused = -1;

  int objects = 0;               ///< Handles and descriptors that are not destroyed yet.
  int queries = 0;               ///< Calls of the heuristic.
  int products = 0;              ///< Products computed or captured.
  bool refuses_capture = false;  ///< True if products fail while their stream is captured.
  const void* stream = nullptr;  ///< Stream of the last product.
  int algorithm = -1;            ///< Index of the last product's algorithm among those proposed.
  /// Microseconds of each algorithm of a product with this epilogue, in the order in which the
  /// heuristic proposes them. If null, there is one, which takes no time.
  std::function<std::vector<double>(std::uint32_t epilogue)> times = nullptr;
};
extern CublasLtDouble cublaslt_double;

}  // namespace weft::test
