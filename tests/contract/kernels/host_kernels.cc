// Weft's own CUDA kernels, compiled for the CPU.
#include "tests/contract/kernels/host_language.h"

#include "core/cuda/internal/attention.cuh"
#include "core/cuda/internal/column_sums.cuh"
#include "core/cuda/internal/elementwise.cuh"
#include "core/cuda/internal/embedding.cuh"
#include "core/cuda/internal/group_norm.cuh"
#include "core/cuda/internal/layer_norm.cuh"
#include "core/cuda/internal/losses.cuh"
#include "core/cuda/internal/matrix_product.cuh"
#include "core/cuda/internal/optimizer.cuh"
#include "core/cuda/internal/pictures.cuh"
