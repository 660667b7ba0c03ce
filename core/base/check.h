#pragma once

#include <fmt/format.h>

#include <string>

namespace weft {

/// Prints "CHECK failed: condition (details) at file:line" to standard error and ends the process.
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& details);

namespace internal {
inline std::string check_details() { return {}; }
template <typename... Args>
std::string check_details(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}
}  // namespace internal
}  // namespace weft

/// Ends the process if a condition does not hold, which is a bug in Weft. The supervisor reports
/// and restarts it.
///   WEFT_CHECK(done <= total, "done {} of {}", done, total)
#define WEFT_CHECK(condition, ...)                                        \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::weft::check_failed(#condition, __FILE__, __LINE__,                \
                           ::weft::internal::check_details(__VA_ARGS__)); \
  } while (false)
