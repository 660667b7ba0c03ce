// Attention and matrix products, for the GPU.
#include "core/kernels_cuda/internal/language.cuh"

#include "core/kernels_cuda/internal/attention.cuh"
#include "core/kernels_cuda/internal/matrix_product.cuh"
