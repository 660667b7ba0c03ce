#pragma once

#include <span>

#include "core/cuda/internal/backend.h"
#include "core/device/op_run.h"

namespace weft::cuda {

using OpKernel = weft::OpKernel<Backend>;

// kAddKernel, kSumLeadingKernel, ...: one per op, each defined in the file of its family.
#define WEFT_OP(kind, name) extern const OpKernel kind##Kernel;
WEFT_OPS(WEFT_OP)
#undef WEFT_OP

/// Returns the address `elements` further on; null for null.
inline const void* advance(const void* at, std::int64_t elements, DType type) {
  return at == nullptr
             ? nullptr
             : static_cast<const char*>(at) + elements * static_cast<std::int64_t>(size_of(type));
}
inline void* advance(void* at, std::int64_t elements, DType type) {
  return const_cast<void*>(advance(static_cast<const void*>(at), elements, type));
}

/// Queues an op like Stream::run: checks types, computes, and adds to outputs that accumulate.
void run_op(Backend& backend, const Op& op, std::span<const ConstTensorRef> inputs,
            std::span<const TensorRef> outputs, std::span<const OutputMode> modes);

/// Returns the word that a kernel of the op combines with an invalid number; see Fault.
inline std::uint64_t fault_word(const Op& op) {
  return (static_cast<std::uint64_t>(op.kind) + 1) << 32;
}

/// Throws Error(kInvalidArgument) if a kernel reported a number outside its table or row, and
/// clears the report.
void check_fault(FaultWord& fault);

}  // namespace weft::cuda
