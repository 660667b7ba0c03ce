#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tensor/shape.h"

namespace weft {

/// Dense tensor in the memory of a device. Does not own the memory.
struct ConstTensorRef {
  TensorType type;
  const std::byte* data = nullptr;

  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data), static_cast<std::size_t>(type.elements())};
  }
};

/// Writable dense tensor in the memory of a device. Does not own the memory.
struct TensorRef {
  TensorType type;
  std::byte* data = nullptr;

  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data), static_cast<std::size_t>(type.elements())};
  }
  operator ConstTensorRef() const { return {type, data}; }
};

/// Effect of an op on the memory of an output.
enum class OutputMode : std::uint8_t {
  kWrite,
  kAccumulate,  ///< Adds to the current content, to sum gradients of microbatches in place.
};

}  // namespace weft
