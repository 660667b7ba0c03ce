#include "core/cuda/internal/op_run.h"

#include <algorithm>

#include "core/base/error.h"

namespace weft::cuda {

const OpKernel kEmulatedBlockKernel{emulated_only};
const OpKernel kEmulatedInputGradKernel{emulated_only};
const OpKernel kEmulatedWeightGradKernel{emulated_only};

void run_op(Backend& backend, const Op& op, std::span<const ConstTensorRef> inputs,
            std::span<const TensorRef> outputs, std::span<const OutputMode> modes) {
#define WEFT_OP(kind, name) &kind##Kernel,
  static constexpr const OpKernel* kKernels[] = {WEFT_OPS(WEFT_OP)};
#undef WEFT_OP
  const OpRun run = checked_run(op, inputs, outputs, modes);
  if (std::ranges::any_of(inputs, [](const auto& input) { return input.type.elements() == 0; })) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {  // sums over no elements are 0
      if (!run.accumulate[i] && outputs[i].type.elements() > 0)
        backend.fill_zero(outputs[i].data, outputs[i].type.bytes());
    }
    return;
  }
  run_kernel(
      *kKernels[static_cast<std::size_t>(op.kind)], backend, run,
      [&](std::size_t bytes) { return static_cast<std::byte*>(backend.allocate(bytes)); },
      [&](const TensorRef& from, const TensorRef& to) {
        launch_elementwise(backend.stream(), OpKind::kAdd, DType::kF32, to.data, from.data, to.data,
                           to.type.elements(), 0, false);
      });
}

void check_fault(FaultWord& fault) {
  const std::uint64_t word = fault;
  if (word == 0) return;
  fault = 0;
  const auto kind = static_cast<OpKind>((word >> 32) - 1);
  const auto number = static_cast<std::int32_t>(word & 0xffffffffu);
  const bool target = kind != OpKind::kEmbedding && kind != OpKind::kEmbeddingGrad &&
                      kind != OpKind::kEmbeddingSlice && kind != OpKind::kEmbeddingSliceGrad;
  throw_error(ErrorCode::kInvalidArgument,
              "{}: the {} {} is outside the {}; check that the data match the model's vocabulary",
              to_string(kind), target ? "target" : "id", number, target ? "logits" : "table");
}

}  // namespace weft::cuda
