#pragma once

#include <string>

namespace weft {

/// Returns the file of the shared library from which the function was loaded, without symbolic
/// links; "" if unknown.
std::string file_of_function(const void* function);

template <typename Result, typename... Arguments>
std::string file_of_function(Result (*function)(Arguments...)) {
  return file_of_function(reinterpret_cast<const void*>(function));
}

}  // namespace weft
