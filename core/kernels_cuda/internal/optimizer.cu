// The optimizer, for the GPU.
#include "core/kernels_cuda/internal/language.cuh"

#include "core/kernels_cuda/internal/optimizer.cuh"
