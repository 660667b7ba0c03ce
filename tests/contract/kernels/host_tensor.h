#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/device/tensor_ref.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {

/// Tensor in host memory, `offset` elements behind a 64-byte boundary.
struct HostTensor {
  TensorType type;
  std::vector<std::uint32_t> words;  // the elements, with 64 bytes to spare on both sides
  std::size_t begin = 0;

  HostTensor(TensorType t, std::size_t offset) : type(std::move(t)), words(type.bytes() / 4 + 48) {
    const std::size_t address = reinterpret_cast<std::uintptr_t>(words.data());
    begin = (64 - address % 64) % 64 + 64 + offset * size_of(type.dtype);
  }
  HostTensor(HostTensor&& other) noexcept = default;  // a moved vector keeps its memory
  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()) + begin; }
  TensorRef ref() { return {type, data()}; }

  double get(std::int64_t i) {
    const std::byte* const at = data() + i * size_of(type.dtype);
    if (type.dtype == DType::kBF16)
      return static_cast<float>(*reinterpret_cast<const BFloat16*>(at));
    if (type.dtype == DType::kI32) return *reinterpret_cast<const std::int32_t*>(at);
    return *reinterpret_cast<const float*>(at);
  }
  void set(std::int64_t i, double value) {
    std::byte* const at = data() + i * size_of(type.dtype);
    if (type.dtype == DType::kBF16) {
      *reinterpret_cast<BFloat16*>(at) = BFloat16(static_cast<float>(value));
    } else if (type.dtype == DType::kI32) {
      *reinterpret_cast<std::int32_t*>(at) = static_cast<std::int32_t>(value);
    } else {
      *reinterpret_cast<float*>(at) = static_cast<float>(value);
    }
  }
};

/// Returns inputs of the case, of numbers drawn by `normal`. Inputs of `real` numbers lie `offset`
/// elements behind a boundary; tensors kept by the forward op are computed by the CPU.
std::vector<HostTensor> make_inputs(const OpCase& c, DType real, std::size_t offset,
                                    const std::function<double()>& normal);

}  // namespace weft::test
