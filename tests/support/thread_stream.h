#pragma once

#include <cstddef>
#include <functional>

namespace weft::test {

/// Stream of a test device that runs in its own thread.
class ThreadStream {
 public:
  virtual ~ThreadStream() = default;
  /// Runs `work` after the stream's earlier tasks.
  virtual void perform(std::function<void()> work) = 0;
  /// Returns the real address of bytes in device memory.
  virtual std::byte* real(const std::byte* address, std::size_t size) = 0;
};

}  // namespace weft::test
