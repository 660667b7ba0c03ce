#pragma once

#include <span>

#include "core/kernels_cuda/cuda_kernels.h"

namespace weft {

/// to[i] += from[i]; add.cu.
void launch_add(std::span<const float> from, std::span<float> to, CudaStreamHandle stream);

}  // namespace weft
