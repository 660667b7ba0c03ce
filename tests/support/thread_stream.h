#pragma once

#include <cstddef>
#include <functional>

namespace weft::test {

/// A stream of a test's device that runs by itself, on a thread.
class ThreadStream {
 public:
  virtual ~ThreadStream() = default;
  /// Runs this in its turn.
  virtual void perform(std::function<void()> work) = 0;
  /// Where bytes of the device's memory really lie.
  virtual std::byte* real(const std::byte* address, std::size_t size) = 0;
};

}  // namespace weft::test
