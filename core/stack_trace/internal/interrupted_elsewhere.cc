#include "core/stack_trace/internal/interrupted.h"

namespace weft::internal {

void* interrupted(const void*) { return nullptr; }

}  // namespace weft::internal
