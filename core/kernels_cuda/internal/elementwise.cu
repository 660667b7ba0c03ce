// Elementwise kernels and those of pictures, for the GPU.
#include "core/kernels_cuda/internal/language.cuh"

#include "core/kernels_cuda/internal/elementwise.cuh"
#include "core/kernels_cuda/internal/pictures.cuh"
