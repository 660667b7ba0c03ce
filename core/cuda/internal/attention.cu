// Attention and matrix products, for the GPU.
#include "core/cuda/internal/language.cuh"

#include "core/cuda/internal/attention.cuh"
#include "core/cuda/internal/matrix_product.cuh"
