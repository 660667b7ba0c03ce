#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

/// Runs CUDA kernels on the CPU, exactly as written: block after block, the threads of a block as
/// fibers of one thread that change at barriers and shuffles. What a kernel does wrong is found
/// here before it meets a GPU: a barrier that not all threads reach, a shuffle among lanes of which
/// some are elsewhere, and, by running the threads in both orders, a missing barrier. The address
/// sanitizer sees accesses outside of memory, the undefined-behaviour sanitizer those that are not
/// aligned.
namespace weft::test {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

/// In which order the threads of a block run from barrier to barrier, and the blocks of a grid.
enum class HostOrder : std::uint8_t { kForward, kBackward };

/// Of the running thread. One grid runs at a time.
struct HostThread {
  Dim3 thread{0, 0, 0}, block{0, 0, 0}, block_size, grid_size;
};
extern HostThread host_thread;
extern HostOrder host_order;

/// Runs body() for every thread of the grid. Fails the process with the kernel's name and the
/// reason if the threads of a block wait for each other for ever.
void run_grid(const char* kernel, Dim3 grid, Dim3 block, std::size_t shared_bytes,
              const std::function<void()>& body);

// What kernels call, in a thread of a grid.
std::byte* host_dynamic_shared();
void host_block_barrier();
/// `size` bytes of the value that lane `from` of this warp passes to the same call, into `result`.
void host_shuffle(const void* value, void* result, std::size_t size, unsigned from);

}  // namespace weft::test
