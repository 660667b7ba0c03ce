// Losses and embedding, for the GPU.
#include "core/kernels_cuda/internal/language.cuh"

#include "core/kernels_cuda/internal/embedding.cuh"
#include "core/kernels_cuda/internal/losses.cuh"
