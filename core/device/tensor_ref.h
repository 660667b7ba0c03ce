#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tensor/shape.h"

namespace weft {

/// A dense tensor in some device's memory, which somebody else owns.
struct ConstTensorRef {
  TensorType type;
  const std::byte* data = nullptr;

  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data), static_cast<std::size_t>(type.elements())};
  }
};

/// The same, to be written.
struct TensorRef {
  TensorType type;
  std::byte* data = nullptr;

  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data), static_cast<std::size_t>(type.elements())};
  }
  operator ConstTensorRef() const { return {type, data}; }
};

/// What an op does with the memory of an output.
enum class OutputMode : std::uint8_t {
  kWrite,
  kAccumulate,  ///< Adds to what is there: gradients of microbatches, in place.
};

}  // namespace weft
