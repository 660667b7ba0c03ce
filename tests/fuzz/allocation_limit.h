#pragma once

#include <cstddef>

namespace weft::test {

/// Limit on each allocation of the current thread, while the object exists. A larger one throws
/// std::bad_alloc, which no reader catches: a reader must check a length before it allocates. At
/// most one per thread at a time.
class AllocationLimit final {
 public:
  explicit AllocationLimit(std::size_t bytes);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
};

}  // namespace weft::test
