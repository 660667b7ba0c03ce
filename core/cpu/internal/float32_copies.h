#pragma once

#include <span>
#include <vector>

#include "core/cpu/internal/workspace.h"
#include "core/device/tensor_ref.h"

namespace weft {

/// The tensors of one execution of an op, with f32 copies in place of those that are bf16: kernels
/// are written for f32 alone, and so compute in f32 whatever the types are.
///
/// A value of the call; the copies lie in `workspace`, which serves nothing else meanwhile.
class Float32Copies final {
 public:
  /// Copies the bf16 inputs.
  Float32Copies(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                Workspace& workspace);

  std::span<const ConstTensorRef> inputs() const { return inputs_; }
  std::span<const TensorRef> outputs() const { return outputs_; }
  /// When the op is done: writes the bf16 outputs.
  void round_outputs() const;

 private:
  std::span<const TensorRef> given_outputs_;
  std::vector<ConstTensorRef> inputs_;
  std::vector<TensorRef> outputs_;
};

/// Whether any of the tensors is bf16.
bool any_bf16(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs);

}  // namespace weft
