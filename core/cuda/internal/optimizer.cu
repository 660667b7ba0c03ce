// GPU kernels for the optimizer.
#include "core/cuda/internal/language.cuh"

#include "core/cuda/internal/optimizer.cuh"
