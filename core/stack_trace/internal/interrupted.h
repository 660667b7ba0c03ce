#pragma once

namespace weft::internal {

/// The instruction that a signal has interrupted, from the third argument of the signal's handler;
/// null where the processor is not known.
void* interrupted(const void* context);

}  // namespace weft::internal
