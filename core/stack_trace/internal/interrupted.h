#pragma once

namespace weft::internal {

/// Returns the address of the instruction that a signal interrupted, or null on an unsupported
/// processor. `context` is the third argument of the signal handler.
void* interrupted(const void* context);

}  // namespace weft::internal
