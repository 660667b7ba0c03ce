// The vector kernels with the instructions that every CPU of the architecture has (SSE2 on x86-64).
#define WEFT_VECTOR_NAMESPACE baseline
#define WEFT_VECTOR_FLOATS 4
#include "core/cpu/internal/vector_kernels_body.h"
