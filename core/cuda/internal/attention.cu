// GPU kernels for attention and matrix products.
#include "core/cuda/internal/gpu_runtime.cuh"

#include "core/cuda/internal/attention.cuh"
#include "core/cuda/internal/matrix_product.cuh"
