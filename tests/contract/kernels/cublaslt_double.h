#pragma once

#include <cstddef>

/// Test double of cuBLASLt on the CPU: the functions of <cublasLt.h> that Weft calls, after
/// NVIDIA's documentation of CUDA 13, on the test's own memory. Matrices are column-major; D =
/// alpha op(A) op(B) + beta C, then the epilogue. Calls are synchronous.
///
/// It is as strict as the documentation, and stricter where the real library fails only on a GPU.
/// Attributes have their exact sizes. An algorithm only serves the problem that it was found for.
/// Pointers have the alignments given to the heuristic; of bias and auxiliary matrix it checks the
/// pointers. An algorithm's work space exists, at a multiple of 256 bytes, and is overwritten.
/// Other types, epilogues and attributes than Weft uses are not supported.
namespace weft::test {

struct CublasLtDouble {
  int objects = 0;               ///< Handles and descriptors that are not destroyed yet.
  int queries = 0;               ///< Calls of the heuristic.
  int products = 0;              ///< Products computed or captured.
  bool refuses_capture = false;  ///< True if products fail while their stream is captured.
  const void* stream = nullptr;  ///< Stream of the last product.
};
extern CublasLtDouble cublaslt_double;

}  // namespace weft::test
