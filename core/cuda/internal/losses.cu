// GPU kernels for losses and embedding.
#include "core/cuda/internal/gpu_runtime.cuh"

#include "core/cuda/internal/embedding.cuh"
#include "core/cuda/internal/losses.cuh"
#include "core/cuda/internal/split_input_grad.cuh"
#include "core/cuda/internal/split_losses.cuh"
