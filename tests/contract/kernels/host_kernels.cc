// Weft's own CUDA kernels, compiled for the CPU.
#include "tests/contract/kernels/host_language.h"

#include "core/kernels_cuda/internal/attention.cuh"
#include "core/kernels_cuda/internal/column_sums.cuh"
#include "core/kernels_cuda/internal/elementwise.cuh"
#include "core/kernels_cuda/internal/embedding.cuh"
#include "core/kernels_cuda/internal/group_norm.cuh"
#include "core/kernels_cuda/internal/layer_norm.cuh"
#include "core/kernels_cuda/internal/losses.cuh"
#include "core/kernels_cuda/internal/matrix_product.cuh"
#include "core/kernels_cuda/internal/optimizer.cuh"
#include "core/kernels_cuda/internal/pictures.cuh"
