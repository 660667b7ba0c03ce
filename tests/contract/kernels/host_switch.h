#pragma once

#include <cstddef>
#include <span>

/// Changing between stacks in one thread, without the system calls that swapcontext makes at each
/// change. One source for x86-64, one on ucontext for other processors; CMake chooses.
namespace weft::test {

/// Where a stack that does not run goes on.
struct SwitchPoint {
  void* state = nullptr;
};

/// Goes on at `to`; returns when somebody switches to `from`.
void switch_stack(SwitchPoint& from, SwitchPoint& to);

/// A point that begins `entry`, which must not return, on the stack.
SwitchPoint new_stack(std::span<std::byte> stack, void (*entry)());

}  // namespace weft::test
