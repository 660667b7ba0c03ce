#include "tests/contract/kernels/host_grid.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "tests/contract/kernels/host_switch.h"

namespace weft::test {

HostThread host_thread;
std::function<void(std::function<void()>)> host_launches_to;
HostOrder host_order = HostOrder::kForward;

namespace {

constexpr std::size_t kLanes = 32, kStackBytes = 128 * 1024, kShuffleBytes = 16;
/// Shift of a stack's top against the one before. Stacks begin at pages: without the shift, their
/// tops would compete for the same lines of the processor's caches.
constexpr std::size_t kStackShift = 192, kStackShifts = 64;

enum class State : std::uint8_t { kRunnable, kAtBlockBarrier, kAtShuffle, kDone };

/// Asynchronous copy that has not happened yet.
struct Copy {
  void* to;
  const void* from;
  std::size_t size;
};

struct Stack {
  SwitchPoint point;
  std::unique_ptr<std::byte[]> memory;
};

/// Thread of a block.
struct Thread {
  Dim3 index;
  Stack* stack = nullptr;    ///< Null before the thread begins, and after its end.
  std::size_t shuffles = 0;  ///< Number of shuffles that the thread took part in.
  /// Values of the last two shuffles. A lane may read the older one while another lane is at the
  /// next shuffle.
  std::byte passed[2][kShuffleBytes] = {};
  std::vector<Copy> copies;              ///< Oldest first; those of the open group are last.
  std::vector<std::size_t> copy_groups;  ///< Sizes of the groups that were committed.
  std::size_t open_copies = 0;           ///< Number of copies of the open group.
};

/// Block that is running, one warp after another.
struct Block {
  const char* kernel = "";
  const std::function<void()>* body = nullptr;
  std::vector<Thread> threads;
  std::vector<State> states;  ///< By thread.
  std::vector<std::byte> shared;
  std::size_t first = 0, lanes = 0;  ///< Threads of the running warp.
  std::size_t turn = 0;              ///< Number of lanes that have had their turn in this round.
  std::size_t running = 0;           ///< Thread that runs, or is selected to run next.
  Stack* stack = nullptr;            ///< Stack in use; null: the scheduler's.
  SwitchPoint scheduler;
  std::vector<std::unique_ptr<Stack>> stacks;  ///< Kept for later blocks.
  std::vector<Stack*> free_stacks;             ///< The last used is last.

  Thread& current() { return threads[running]; }
};
Block block;

/// Copies `size` bytes. The compiler expands copies of a known size.
void copy_number(void* to, const void* from, std::size_t size) {
  switch (size) {
    case 4: std::memcpy(to, from, 4); break;
    case 8: std::memcpy(to, from, 8); break;
    default: std::memcpy(to, from, size);
  }
}

/// Returns `index` of `count`, reversed if the run is backward.
std::size_t ordered(std::size_t index, std::size_t count) {
  return host_order == HostOrder::kForward ? index : count - 1 - index;
}

/// Selects the warp's next lane that can run in this round. Returns false if there is none.
bool select_next() {
  while (block.turn < block.lanes) {
    const std::size_t next = block.first + ordered(block.turn++, block.lanes);
    if (block.states[next] != State::kRunnable) continue;
    block.running = next;
    host_thread.thread = block.current().index;
    return true;
  }
  return false;
}

/// Runs the selected thread and those after it on the stack in use, until one of them has begun
/// before, on a stack of its own. Threads that never wait so need no switch. Returns whether a
/// thread is selected.
bool run_new_threads() {
  Stack* const stack = block.stack;
  do {
    Thread& own = block.current();
    own.stack = stack;
    own.shuffles = 0;
    (*block.body)();
    WEFT_CHECK(own.copies.empty(), "kernel {}: a thread ends before its copies to shared memory",
               block.kernel);
    own.copy_groups.clear();
    own.stack = nullptr;
    block.states[block.running] = State::kDone;
    if (!select_next()) return false;
  } while (block.current().stack == nullptr);
  return true;
}

void switch_to(Stack* stack) {
  Stack* const from = std::exchange(block.stack, stack);
  switch_stack(from == nullptr ? block.scheduler : from->point,
               stack == nullptr ? block.scheduler : stack->point);
}

/// Runs new threads and switches to one that has begun, or to the scheduler. Has a frame of its
/// own: the address sanitizer takes variables of a stack's main function, which never returns, for
/// those of a function that has returned.
[[gnu::noinline]] void use_stack() {
  const bool selected = run_new_threads();
  block.free_stacks.push_back(block.stack);
  switch_to(selected ? block.current().stack : nullptr);
}

/// Main function of a stack.
void stack_main() {
  for (;;) use_stack();
}

Stack* take_stack() {
  if (block.free_stacks.empty()) {
    const std::size_t number = block.stacks.size();
    Stack& made = *block.stacks.emplace_back(std::make_unique<Stack>());
    made.memory = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    made.point = new_stack({made.memory.get(), kStackBytes - number % kStackShifts * kStackShift},
                           stack_main);
    return &made;
  }
  Stack* const last = block.free_stacks.back();
  block.free_stacks.pop_back();
  return last;
}

/// Switches to the warp's next lane of this round, or else to the scheduler.
void switch_to_next() {
  if (!select_next()) return switch_to(nullptr);
  Stack* const begun = block.current().stack;
  switch_to(begun != nullptr ? begun : take_stack());
}

void wait_as(State state) {
  block.states[block.running] = state;
  switch_to_next();
}

/// Runs a warp until each of its lanes is done or at the block's barrier.
void run_warp(std::size_t first, std::size_t lanes) {
  block.first = first;
  block.lanes = lanes;
  const std::span<State> states = std::span(block.states).subspan(first, lanes);
  for (;;) {
    block.turn = 0;
    switch_to_next();
    const auto count = [&](State state) { return std::ranges::count(states, state); };
    const auto at_shuffle = count(State::kAtShuffle);
    if (at_shuffle == 0) return;
    WEFT_CHECK(at_shuffle == kLanes,
               "kernel {}: of warp {} of block ({}, {}, {}) {} lanes are at a shuffle, {} at a "
               "barrier, {} are done",
               block.kernel, first / kLanes, host_thread.block.x, host_thread.block.y,
               host_thread.block.z, at_shuffle, count(State::kAtBlockBarrier), count(State::kDone));
    std::ranges::fill(states, State::kRunnable);
  }
}

void run_block() {
  const std::size_t threads = block.threads.size(), warps = (threads + kLanes - 1) / kLanes;
  for (;;) {
    block.states.assign(threads, State::kRunnable);
    for (std::size_t w = 0; w < warps; ++w) {
      const std::size_t first = ordered(w, warps) * kLanes;
      run_warp(first, std::min(kLanes, threads - first));
    }
    const std::size_t waiting = std::ranges::count(block.states, State::kAtBlockBarrier);
    if (waiting == 0) return;
    // Threads that have ended do not count at a barrier. Either none or all threads of a block may
    // end before a barrier.
    WEFT_CHECK(waiting == threads,
               "kernel {}: {} of {} threads are at a barrier, the others have ended", block.kernel,
               waiting, threads);
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
  block.threads.resize(block_size.count());
  for (unsigned t = 0; t < block.threads.size(); ++t)
    block.threads[t].index = {t % block_size.x, t / block_size.x % block_size.y,
                              t / block_size.x / block_size.y};
  host_thread.block_size = block_size;
  host_thread.grid_size = grid;
  const std::uint64_t blocks = grid.count();
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t b = host_order == HostOrder::kForward ? i : blocks - 1 - i;
    // Shared memory holds other data at first: NaNs.
    block.shared.assign(shared_bytes, std::byte{0xff});
    host_thread.block = {static_cast<unsigned>(b % grid.x),
                         static_cast<unsigned>(b / grid.x % grid.y),
                         static_cast<unsigned>(b / grid.x / grid.y)};
    run_block();
  }
}

std::byte* host_dynamic_shared() { return block.shared.data(); }

void host_block_barrier() { wait_as(State::kAtBlockBarrier); }

void host_shuffle(const void* value, void* result, std::size_t size, unsigned from) {
  WEFT_CHECK(size <= kShuffleBytes && from < kLanes);
  Thread& own = block.current();
  const std::size_t slot = own.shuffles++ % 2, first_lane = block.running / kLanes * kLanes;
  copy_number(own.passed[slot], value, size);
  wait_as(State::kAtShuffle);
  copy_number(result, block.threads[first_lane + from].passed[slot], size);
}

void host_copy_async(void* to, const void* from, std::size_t size) {
  WEFT_CHECK(size == 4 || size == 8 || size == 16, "an asynchronous copy of {} bytes", size);
  WEFT_CHECK(reinterpret_cast<std::uintptr_t>(to) % size == 0 &&
                 reinterpret_cast<std::uintptr_t>(from) % size == 0,
             "kernel {}: an asynchronous copy of {} bytes is not aligned", block.kernel, size);
  Thread& own = block.current();
  own.copies.push_back({to, from, size});
  ++own.open_copies;
}

void host_commit_copies() {
  Thread& own = block.current();
  own.copy_groups.push_back(std::exchange(own.open_copies, 0));
}

void host_wait_for_copies(std::size_t pending) {
  Thread& own = block.current();
  if (own.copy_groups.size() <= pending) return;
  const auto groups = std::span(own.copy_groups).first(own.copy_groups.size() - pending);
  const std::size_t ready = std::accumulate(groups.begin(), groups.end(), std::size_t{0});
  for (const Copy& copy : std::span(own.copies).first(ready))
    copy_number(copy.to, copy.from, copy.size);
  own.copies.erase(own.copies.begin(), own.copies.begin() + static_cast<std::ptrdiff_t>(ready));
  own.copy_groups.erase(own.copy_groups.begin(), own.copy_groups.begin() + std::ssize(groups));
}

}  // namespace weft::test
