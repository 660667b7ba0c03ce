#include <ucontext.h>

#include <memory>
#include <vector>

#include "tests/contract/kernels/host_switch.h"

namespace weft::test {

void switch_stack(SwitchPoint& from, SwitchPoint& to) {
  // State of the thread's own stack; one per process, never freed.
  if (from.state == nullptr) from.state = new ucontext_t{};
  swapcontext(static_cast<ucontext_t*>(from.state), static_cast<const ucontext_t*>(to.state));
}

SwitchPoint new_stack(std::span<std::byte> stack, void (*entry)()) {
  auto* const context = new ucontext_t{};
  getcontext(context);
  context->uc_stack.ss_sp = stack.data();
  context->uc_stack.ss_size = stack.size();
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return {context};
}

}  // namespace weft::test
