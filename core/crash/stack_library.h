#pragma once

namespace weft {

inline constexpr const char* kStackLibrary = "libweft_stack.so";
inline constexpr const char* kWriteStack = "weft_stack_plugin";

/// Function kWriteStack of kStackLibrary: writes the functions that a signal has interrupted to
/// standard error, a line each. `context`, `address`: of the signal's handler. Takes memory.
using WriteStack = void (*)(void* context, void* address);

}  // namespace weft
