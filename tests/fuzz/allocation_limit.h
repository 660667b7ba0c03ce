#pragma once

#include <cstddef>

namespace weft::test {

/// While one lives, an allocation above `bytes` in its thread throws std::bad_alloc, which no
/// reader catches: a length in damaged bytes must be checked before memory is asked for. One at a
/// time in a thread; its own thread only.
class AllocationLimit final {
 public:
  explicit AllocationLimit(std::size_t bytes);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
};

}  // namespace weft::test
