// The vector kernels for AVX2 with FMA. core/CMakeLists.txt gives this file its compiler flags.
#if defined(__x86_64__)
#define WEFT_VECTOR_NAMESPACE avx2
#define WEFT_VECTOR_FLOATS 8
#include "core/cpu/internal/vector_kernels_body.h"
#endif
