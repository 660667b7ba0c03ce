#include <ucontext.h>

#include "core/stack_trace/internal/interrupted.h"

namespace weft::internal {

void* interrupted(const void* context) {
  const mcontext_t& state = static_cast<const ucontext_t*>(context)->uc_mcontext;
  return reinterpret_cast<void*>(state.gregs[REG_RIP]);
}

}  // namespace weft::internal
