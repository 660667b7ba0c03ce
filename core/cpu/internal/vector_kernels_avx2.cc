// Vector kernels for AVX2 with FMA. core/CMakeLists.txt sets the compiler flags of this file.
#if defined(__x86_64__)
#define WEFT_VECTOR_NAMESPACE avx2
#define WEFT_VECTOR_FLOATS 8
#include "core/cpu/internal/vector_kernels_body.h"
#endif
