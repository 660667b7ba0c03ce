#pragma once

#include <cstddef>
#include <span>

/// Switches between stacks of one thread without the system calls of swapcontext. CMake selects the
/// source for x86-64, or the one on ucontext for other processors.
namespace weft::test {

/// Saved state of a suspended stack.
struct SwitchPoint {
  void* state = nullptr;
};

/// Resumes `to`. Returns when another call resumes `from`.
void switch_stack(SwitchPoint& from, SwitchPoint& to);

/// Returns a point that calls `entry` on `stack`. `entry` must not return.
SwitchPoint new_stack(std::span<std::byte> stack, void (*entry)());

}  // namespace weft::test
