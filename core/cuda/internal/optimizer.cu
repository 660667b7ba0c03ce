// GPU kernels for the optimizer.
#include "core/cuda/internal/gpu_runtime.cuh"

#include "core/cuda/internal/optimizer.cuh"
