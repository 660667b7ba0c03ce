#include "core/cpu/cpu_kernels.h"

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/cpu/internal/float32_copies.h"
#include "core/cpu/internal/op_kernels.h"
#include "core/device/adamw_constants.h"
#include "core/tensor/bfloat16.h"

namespace weft {
namespace {

/// Runs an op on f32 tensors.
void run_f32(CpuKernels::Context& context, const OpRun& run) {
#define WEFT_OP(kind, name) &kind##Kernel,
  static constexpr const CpuOpKernel* kKernels[] = {WEFT_OPS(WEFT_OP)};
#undef WEFT_OP
  run_kernel(
      *kKernels[static_cast<std::size_t>(run.op.kind)], context, run,
      [&](std::size_t bytes) {
        return reinterpret_cast<std::byte*>(
            context.accumulate_buffer.floats(bytes / sizeof(float)));
      },
      [&](const TensorRef& from, const TensorRef& to) {
        float* const sum = to.as<float>().data();
        context.vector.add_row(sum, from.as<float>().data(), sum, 1, to.type.elements());
      });
}

}  // namespace

const CpuOpKernel kEmulatedBlockKernel{emulated_only};
const CpuOpKernel kEmulatedInputGradKernel{emulated_only};
const CpuOpKernel kEmulatedWeightGradKernel{emulated_only};

CpuKernels::CpuKernels(InstructionSet instruction_set, int threads) {
  if (instruction_set > detect_instruction_set()) {
    throw_error(ErrorCode::kInvalidArgument, "this CPU does not have {} instructions; it has {}",
                to_string(instruction_set), to_string(detect_instruction_set()));
  }
  if (threads < 1)
    throw_error(ErrorCode::kInvalidArgument, "a device needs at least 1 thread, not {}", threads);
  context_.reset(new Context{vector_kernels(instruction_set), threads, {}, {}, {}, {}, {}});
}

CpuKernels::~CpuKernels() = default;

void CpuKernels::run(const Op& op, std::span<const ConstTensorRef> inputs,
                     std::span<const TensorRef> outputs, std::span<const OutputMode> modes) {
  const OpRun run = checked_run(op, inputs, outputs, modes);
  set_matmul_threads(context_->threads);
  if (!any_bf16(inputs, outputs)) return run_f32(*context_, run);
  const Float32Copies copies(inputs, outputs, context_->float32_copies);
  run_f32(*context_, {op, copies.inputs(), copies.outputs(), run.accumulate});
  copies.round_outputs();
}

void CpuKernels::add(std::span<const float> from, std::span<float> to) {
  WEFT_CHECK(from.size() == to.size());
  context_->vector.add_row(to.data(), from.data(), to.data(), 1, std::ssize(to));
}

void CpuKernels::adamw(const AdamW& step, const AdamWParameter& parameter) {
  const auto& [gradient, value, first_moment, second_moment, decay, working] = parameter;
  const std::size_t size = value.size();
  WEFT_CHECK(gradient.size() == size && first_moment.size() == size &&
             second_moment.size() == size);
  context_->vector.adamw(adamw_constants(step), adamw_decay(step, parameter), gradient.data(),
                         value.data(), first_moment.data(), second_moment.data(),
                         static_cast<std::int64_t>(size));
  if (working.data == nullptr) return;
  WEFT_CHECK(working.type.dtype == DType::kBF16, "a working copy in {}", to_string(working.type));
  convert(value, working.as<BFloat16>());
}

double CpuKernels::sum_of_squares(std::span<const float> values) {
  return context_->vector.sum_of_squares(values.data(), std::ssize(values));
}

}  // namespace weft
