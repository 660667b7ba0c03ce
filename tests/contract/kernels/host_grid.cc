#include "tests/contract/kernels/host_grid.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "core/base/check.h"
#include "tests/contract/kernels/host_switch.h"

namespace weft::test {

HostThread host_thread;
std::function<void(std::function<void()>)> host_launches_to;
HostOrder host_order = HostOrder::kForward;

namespace {

constexpr std::size_t kLanes = 32, kStackBytes = 128 * 1024, kShuffleBytes = 16;

enum class State : std::uint8_t { kRunnable, kAtBlockBarrier, kAtShuffle, kDone };

/// Asynchronous copy that has not happened yet.
struct Copy {
  void* to;
  const void* from;
  std::size_t size;
};

struct Fiber {
  SwitchPoint point;
  std::unique_ptr<std::byte[]> stack;
  HostThread thread;
  State state = State::kDone;
  std::size_t shuffles = 0;  ///< Number of shuffles that the thread took part in.
  /// Values of the last two shuffles. A lane may read the older one while another lane is at the
  /// next shuffle.
  std::byte passed[2][kShuffleBytes] = {};
  std::vector<Copy> open_group;
  std::deque<std::vector<Copy>> copy_groups;  ///< Groups that were committed but not waited for.
};

/// Block that is running.
struct Block {
  const char* kernel = "";
  const std::function<void()>* body = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers;  ///< Kept for later blocks, with their stacks.
  std::size_t threads = 0, running = 0;
  SwitchPoint scheduler;
  std::vector<std::byte> shared;

  Fiber& current() { return *fibers[running]; }
};
Block block;

void wait_as(State state) {
  block.current().state = state;
  switch_stack(block.current().point, block.scheduler);
  host_thread = block.current().thread;
}

/// Checks that the running thread leaves no asynchronous copies behind. Has a frame of its own: the
/// address sanitizer takes variables of a fiber's main function, which never returns, for those of
/// a function that has returned.
[[gnu::noinline]] void check_thread_end() {
  Fiber& own = block.current();
  own.copy_groups.push_back(std::move(own.open_group));
  WEFT_CHECK(std::ranges::all_of(own.copy_groups, &std::vector<Copy>::empty),
             "kernel {}: a thread ends before its copies to shared memory", block.kernel);
  own.open_group.clear();
  own.copy_groups.clear();
}

/// Main function of a fiber: runs one thread of a block after another, for ever.
void fiber_main() {
  for (;;) {
    (*block.body)();
    check_thread_end();
    wait_as(State::kDone);
  }
}

void start_fiber(std::size_t index) {
  if (block.fibers.size() <= index) block.fibers.resize(index + 1);
  std::unique_ptr<Fiber>& fiber = block.fibers[index];
  if (!fiber) {
    fiber = std::make_unique<Fiber>();
    fiber->stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    fiber->point = new_stack({fiber->stack.get(), kStackBytes}, fiber_main);
  }
  fiber->state = State::kRunnable;
  fiber->shuffles = 0;
}

/// Returns `index` of `count`, reversed if the run is backward.
std::size_t ordered(std::size_t index, std::size_t count) {
  return host_order == HostOrder::kForward ? index : count - 1 - index;
}

void resume(std::size_t index) {
  block.running = index;
  host_thread = block.current().thread;
  switch_stack(block.scheduler, block.current().point);
}

/// Runs a warp until each of its lanes is done or at the block's barrier.
void run_warp(std::size_t first, std::size_t count) {
  for (;;) {
    std::size_t at_shuffle = 0, waiting = 0;
    for (std::size_t l = 0; l < count; ++l) {
      const std::size_t index = first + ordered(l, count);
      if (block.fibers[index]->state == State::kRunnable) resume(index);
    }
    for (std::size_t l = 0; l < count; ++l) {
      at_shuffle += block.fibers[first + l]->state == State::kAtShuffle ? 1 : 0;
      waiting += block.fibers[first + l]->state == State::kAtBlockBarrier ? 1 : 0;
    }
    if (at_shuffle == 0) return;
    WEFT_CHECK(at_shuffle == count && count == kLanes,
               "kernel {}: of warp {} of block ({}, {}, {}) {} lanes are at a shuffle, {} at a "
               "barrier, {} are done",
               block.kernel, first / kLanes, host_thread.block.x, host_thread.block.y,
               host_thread.block.z, at_shuffle, waiting, count - at_shuffle - waiting);
    for (std::size_t l = 0; l < count; ++l) block.fibers[first + l]->state = State::kRunnable;
  }
}

void run_block() {
  for (;;) {
    const std::size_t warps = (block.threads + kLanes - 1) / kLanes;
    for (std::size_t w = 0; w < warps; ++w) {
      const std::size_t first = ordered(w, warps) * kLanes;
      run_warp(first, std::min(kLanes, block.threads - first));
    }
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < block.threads; ++i) {
      if (block.fibers[i]->state != State::kAtBlockBarrier) continue;
      block.fibers[i]->state = State::kRunnable;
      ++waiting;
    }
    if (waiting == 0) return;
    // Threads that have ended do not count at a barrier. Either none or all threads of a block may
    // end before a barrier.
    WEFT_CHECK(waiting == block.threads,
               "kernel {}: {} of {} threads are at a barrier, the others have ended", block.kernel,
               waiting, block.threads);
  }
}

}  // namespace

void run_grid(const char* kernel, Dim3 grid, Dim3 block_size, std::size_t shared_bytes,
              const std::function<void()>& body) {
  WEFT_CHECK(block_size.count() >= 1 && block_size.count() <= 1024,
             "kernel {}: {} threads in a block", kernel, block_size.count());
  WEFT_CHECK(grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535,
             "kernel {}: a grid of {} by {} by {} blocks", kernel, grid.x, grid.y, grid.z);
  block.kernel = kernel;
  block.body = &body;
  block.threads = block_size.count();
  const std::uint64_t blocks = grid.count();
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t b = host_order == HostOrder::kForward ? i : blocks - 1 - i;
    // Shared memory holds other data at first: NaNs.
    block.shared.assign(shared_bytes, std::byte{0xff});
    for (std::size_t t = 0; t < block.threads; ++t) {
      start_fiber(t);
      HostThread& thread = block.fibers[t]->thread;
      thread.block_size = block_size;
      thread.grid_size = grid;
      const unsigned small = t;
      thread.thread = {small % block_size.x, small / block_size.x % block_size.y,
                       small / block_size.x / block_size.y};
      thread.block = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                      static_cast<unsigned>(b / grid.x / grid.y)};
    }
    run_block();
  }
}

std::byte* host_dynamic_shared() { return block.shared.data(); }

void host_block_barrier() { wait_as(State::kAtBlockBarrier); }

void host_shuffle(const void* value, void* result, std::size_t size, unsigned from) {
  WEFT_CHECK(size <= kShuffleBytes && from < kLanes);
  Fiber& own = block.current();
  const std::size_t slot = own.shuffles++ % 2, first_lane = block.running / kLanes * kLanes;
  std::memcpy(own.passed[slot], value, size);
  wait_as(State::kAtShuffle);
  std::memcpy(result, block.fibers[first_lane + from]->passed[slot], size);
}

void host_copy_async(void* to, const void* from, std::size_t size) {
  WEFT_CHECK(size == 4 || size == 8 || size == 16, "an asynchronous copy of {} bytes", size);
  WEFT_CHECK(reinterpret_cast<std::uintptr_t>(to) % size == 0 &&
                 reinterpret_cast<std::uintptr_t>(from) % size == 0,
             "kernel {}: an asynchronous copy of {} bytes is not aligned", block.kernel, size);
  block.current().open_group.push_back({to, from, size});
}

void host_commit_copies() {
  Fiber& own = block.current();
  own.copy_groups.push_back(std::move(own.open_group));
  own.open_group.clear();
}

void host_wait_for_copies(std::size_t pending) {
  std::deque<std::vector<Copy>>& groups = block.current().copy_groups;
  for (; groups.size() > pending; groups.pop_front()) {
    for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.size);
  }
}

}  // namespace weft::test
