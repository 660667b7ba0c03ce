// Elementwise kernels and those of pictures, for the GPU.
#include "core/cuda/internal/language.cuh"

#include "core/cuda/internal/elementwise.cuh"
#include "core/cuda/internal/pictures.cuh"
