// Sums of rows, layer norm and group norm, for the GPU.
#include "core/kernels_cuda/internal/language.cuh"

#include "core/kernels_cuda/internal/column_sums.cuh"
#include "core/kernels_cuda/internal/group_norm.cuh"
#include "core/kernels_cuda/internal/layer_norm.cuh"
