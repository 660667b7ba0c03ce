// Vector kernels for the baseline instructions of the architecture (SSE2 on x86-64).
#define WEFT_VECTOR_NAMESPACE baseline
#define WEFT_VECTOR_FLOATS 4
#include "core/cpu/internal/vector_kernels_body.h"
