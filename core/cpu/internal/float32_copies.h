#pragma once

#include <span>
#include <vector>

#include "core/cpu/internal/workspace.h"
#include "core/device/tensor_ref.h"

namespace weft {

/// Tensors of one op execution, with bf16 tensors replaced by f32 copies, as kernels support f32
/// only.
///
/// Lives during one call. The copies use `workspace` exclusively.
class Float32Copies final {
 public:
  /// Copies the bf16 inputs.
  Float32Copies(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                Workspace& workspace);

  std::span<const ConstTensorRef> inputs() const { return inputs_; }
  std::span<const TensorRef> outputs() const { return outputs_; }
  /// Writes the bf16 outputs after the op is done.
  void round_outputs() const;

 private:
  std::span<const TensorRef> given_outputs_;
  std::vector<ConstTensorRef> inputs_;
  std::vector<TensorRef> outputs_;
};

/// Returns true if any tensor is bf16.
bool any_bf16(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs);

}  // namespace weft
