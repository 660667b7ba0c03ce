// Switches stacks: pushes the callee-saved registers (System V ABI: rbx, rbp, r12 to r15) on the
// old stack and pops them from the new one.
#include <cstdint>

#include "tests/contract/kernels/host_switch.h"

extern "C" void weft_test_switch_stack(void** from, void* to);

asm(R"(
.text
.globl weft_test_switch_stack
.type weft_test_switch_stack, @function
weft_test_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weft_test_switch_stack, .-weft_test_switch_stack
)");

namespace weft::test {

void switch_stack(SwitchPoint& from, SwitchPoint& to) {
  weft_test_switch_stack(&from.state, to.state);
}

SwitchPoint new_stack(std::span<std::byte> stack, void (*entry)()) {
  // Six registers, the return address, and one word that aligns the stack as after a call.
  auto top = reinterpret_cast<std::uintptr_t>(stack.data() + stack.size()) / 16 * 16;
  auto* const words = reinterpret_cast<std::uintptr_t*>(top) - 8;
  for (int i = 0; i < 8; ++i) words[i] = 0;
  words[6] = reinterpret_cast<std::uintptr_t>(entry);
  return {words};
}

}  // namespace weft::test
