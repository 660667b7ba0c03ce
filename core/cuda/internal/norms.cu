// GPU kernels for sums of rows, layer norm and group norm.
#include "core/cuda/internal/gpu_runtime.cuh"

#include "core/cuda/internal/column_sums.cuh"
#include "core/cuda/internal/group_norm.cuh"
#include "core/cuda/internal/layer_norm.cuh"
#include "core/cuda/internal/layer_norm_grad.cuh"
#include "core/cuda/internal/split_layer_norm.cuh"
