#pragma once

#include <cstddef>

/// cuBLASLt for the CPU: the functions of <cublasLt.h> that Weft calls, after NVIDIA's
/// documentation of CUDA 13, on the test's own memory. Matrices lie column by column; D = alpha
/// op(A) op(B) + beta C, then the epilogue. Work is done within the call.
///
/// It is as strict as the documentation, and stricter where the real library would fail on a GPU
/// only: attributes have their sizes, an algorithm serves the problem that it was found for,
/// pointers are aligned as the heuristic was told (of bias and auxiliary matrix it looks at the
/// pointers), and the work space that an algorithm wants is there, at a multiple of 256 bytes, and
/// is overwritten. What it does not know, of types, epilogues and attributes, it does not support.
namespace weft::test {

struct CublasLtDouble {
  int objects = 0;               ///< Handles and descriptors that have not been destroyed.
  int queries = 0;               ///< Of the heuristic.
  int products = 0;              ///< That were done.
  const void* stream = nullptr;  ///< Of the last product.
};
extern CublasLtDouble cublaslt_double;

}  // namespace weft::test
