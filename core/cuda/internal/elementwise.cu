// GPU kernels for element-wise ops and pictures.
#include "core/cuda/internal/language.cuh"

#include "core/cuda/internal/elementwise.cuh"
#include "core/cuda/internal/pictures.cuh"
