#pragma once

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/internal/convolution.h"
#include "core/cpu/internal/matmul.h"
#include "core/cpu/internal/vector_kernels.h"
#include "core/cpu/internal/workspace.h"
#include "core/device/op_run.h"

namespace weft {

/// State that kernels keep between runs.
struct CpuKernels::Context {
  const VectorKernels& vector;
  int threads;
  BiasedMatmul biased_matmul;
  Convolutions convolutions;
  Workspace workspace;          ///< scratch memory of the running op
  Workspace accumulate_buffer;  ///< outputs of ops that cannot accumulate themselves
  Workspace float32_copies;     ///< f32 copies of bf16 tensors
};

using CpuOpKernel = OpKernel<CpuKernels::Context>;

// kAddKernel, kSumLeadingKernel, ...: one per op, each defined in the file of its family. All float
// tensors of a kernel are f32.
#define WEFT_OP(kind, name) extern const CpuOpKernel kind##Kernel;
WEFT_OPS(WEFT_OP)
#undef WEFT_OP

}  // namespace weft
