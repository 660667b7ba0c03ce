// Vector kernels for AVX-512. core/CMakeLists.txt sets the compiler flags of this file.
#if defined(__x86_64__)
#define WEFT_VECTOR_NAMESPACE avx512
#define WEFT_VECTOR_FLOATS 16
#include "core/cpu/internal/vector_kernels_body.h"
#endif
