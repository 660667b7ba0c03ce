// The optimizer, for the GPU.
#include "core/cuda/internal/language.cuh"

#include "core/cuda/internal/optimizer.cuh"
