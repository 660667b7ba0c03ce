#include "tests/fuzz/allocation_limit.h"

#include <cstdlib>
#include <limits>
#include <new>

namespace weft::test {
namespace {
// Zero-initialised, as operator new runs before any constructor. 0: no limit.
thread_local std::size_t limit = 0;
}  // namespace

AllocationLimit::AllocationLimit(std::size_t bytes) { limit = bytes; }
AllocationLimit::~AllocationLimit() { limit = 0; }

}  // namespace weft::test

// Not inlined: GCC would warn, if a test is in the same translation unit, that memory of `new` is
// passed to `free`.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (weft::test::limit != 0 && bytes > weft::test::limit) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
