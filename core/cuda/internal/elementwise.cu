// GPU kernels for element-wise ops and pictures.
#include "core/cuda/internal/gpu_runtime.cuh"

#include "core/cuda/internal/elementwise.cuh"
#include "core/cuda/internal/pictures.cuh"
