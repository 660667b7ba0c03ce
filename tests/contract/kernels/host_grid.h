#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

/// Runs unchanged CUDA kernels on the CPU: one block after another, with the threads of a block as
/// fibers of one thread that switch at barriers and shuffles. Finds bugs before they reach a GPU: a
/// barrier that not all threads reach, a shuffle whose lanes are not all there, a missing wait for
/// an asynchronous copy, and, by running the threads in both orders, a missing barrier. The address
/// sanitizer finds accesses out of bounds; the undefined-behaviour sanitizer finds unaligned ones.
namespace weft::test {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

/// Order of a block's threads between barriers, and of a grid's blocks.
enum class HostOrder : std::uint8_t { kForward, kBackward };

/// Indices and sizes of the running thread. One grid runs at a time.
struct HostThread {
  Dim3 thread{0, 0, 0}, block{0, 0, 0}, block_size, grid_size;
};
extern HostThread host_thread;
extern HostOrder host_order;

/// Takes the launches of kernels while a stream is captured, to run them later; empty if launches
/// run at once.
extern std::function<void(std::function<void()>)> host_launches_to;

/// Runs body() for every thread of the grid. Ends the process, with the kernel's name and the
/// reason, if the threads of a block deadlock.
void run_grid(const char* kernel, Dim3 grid, Dim3 block, std::size_t shared_bytes,
              const std::function<void()>& body);

// Functions that kernels call, in a thread of a grid.
std::byte* host_dynamic_shared();
void host_block_barrier();
/// Copies to `result` the `size` bytes of the value that lane `from` of this warp passes to the
/// same call.
void host_shuffle(const void* value, void* result, std::size_t size, unsigned from);
/// Adds a copy to this thread's open group. It happens when the thread waits for the group.
void host_copy_async(void* to, const void* from, std::size_t size);
void host_commit_copies();
/// Completes all of this thread's groups except the latest `pending`.
void host_wait_for_copies(std::size_t pending);

}  // namespace weft::test
