#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "core/base/memory.h"

namespace weft {

/// Memory for running ops. Grows to the largest requested size and is kept. Not thread-safe.
class Workspace final {
 public:
  /// Returns at least `count` floats, aligned to 64 bytes, valid until the next call.
  float* floats(std::size_t count) {
    if (count > capacity_) {
      memory_.reset();
      const std::size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
      memory_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
      if (!memory_) throw_out_of_memory(bytes, "an op");
      capacity_ = count;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float[], Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace weft
