#pragma once

namespace weft {

inline constexpr const char* kStackLibrary = "libweft_stack.so";
inline constexpr const char* kWriteStack = "weft_stack_plugin";

/// Function kWriteStack of kStackLibrary. Writes the stack interrupted by a signal to standard
/// error, one function a line. Arguments: the context and the fault address from the signal
/// handler. Allocates memory.
using WriteStack = void (*)(void* context, void* address);

}  // namespace weft
