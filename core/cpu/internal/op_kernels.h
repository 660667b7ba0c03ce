#pragma once

#include <array>
#include <span>

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/internal/convolution.h"
#include "core/cpu/internal/matmul.h"
#include "core/cpu/internal/vector_kernels.h"
#include "core/cpu/internal/workspace.h"
#include "core/device/tensor_ref.h"
#include "core/graph/op.h"

namespace weft {

/// What kernels keep between runs.
struct CpuKernels::Context {
  const VectorKernels& vector;
  int threads;
  BiasedMatmul biased_matmul;
  Convolutions convolutions;
  Workspace workspace;          ///< for the op that runs
  Workspace accumulate_buffer;  ///< for outputs of ops that cannot add to their output themselves
  Workspace float32_copies;     ///< of bf16 tensors
};

/// One execution of an op, its types checked, all floats f32. Outputs beyond those of the op are
/// absent.
struct OpRun {
  const Op& op;
  std::span<const ConstTensorRef> inputs;
  std::span<const TensorRef> outputs;
  std::array<bool, 3> accumulate;  ///< By output; only ever true where accumulates_itself(op.kind).

  const float* in(std::size_t i) const { return reinterpret_cast<const float*>(inputs[i].data); }
  const std::int32_t* ids(std::size_t i) const {
    return reinterpret_cast<const std::int32_t*>(inputs[i].data);
  }
  float* out(std::size_t i = 0) const { return reinterpret_cast<float*>(outputs[i].data); }
  const Shape& shape(std::size_t input) const { return inputs[input].type.shape; }
  /// Elements of an input divided by its last dimension.
  std::int64_t rows(std::size_t input) const {
    return inputs[input].type.elements() / shape(input).back();
  }
};

using OpKernel = void(CpuKernels::Context& context, const OpRun& run);
OpKernel run_linear, run_linear_input_grad, run_linear_weight_grad;
OpKernel run_linear_gelu, run_linear_add, run_linear_input_grad_gelu, run_linear_weight_grad_sum;
OpKernel run_attention, run_attention_grad;
OpKernel run_embedding, run_embedding_grad;
OpKernel run_cross_entropy, run_cross_entropy_grad;
OpKernel run_convolution, run_convolution_input_grad, run_convolution_weight_grad;
OpKernel run_group_norm, run_group_norm_input_grad, run_group_norm_weight_grad;
OpKernel run_upsample, run_upsample_grad;
OpKernel run_concat, run_slice;
OpKernel run_add_channels, run_sum_positions;
OpKernel run_cross_attention, run_cross_attention_grad;

}  // namespace weft
