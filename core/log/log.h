#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// "debug", "info", "warning", "error".
std::string_view to_string(LogLevel level);
/// The level of that name. Throws Error(kInvalidArgument) naming all of them.
LogLevel parse_log_level(std::string_view name);

/// Where a process writes what it does, a line at a time; lines below the lowest level are not even
/// formatted.
///
/// A value: copies write to the same place. Made in main, passed to whoever has something to say.
/// Any thread.
class Log final {
 public:
  /// Called with lines of at least the lowest level, on the thread that logs.
  using Sink = std::function<void(LogLevel, const std::string&)>;
  Log(LogLevel lowest, Sink sink) : lowest_(lowest), sink_(std::move(sink)) {}

  /// Lines such as "2026-11-21 08:30:05.123 info: text", each written whole and at once; the text
  /// by printable().
  static Log standard_output(LogLevel lowest);
  static Log standard_error(LogLevel lowest);

  LogLevel lowest() const { return lowest_; }

  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kDebug, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kInfo, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kWarning, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kError, format, std::forward<Args>(args)...);
  }

 private:
  template <typename... Args>
  void write(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (level >= lowest_) sink_(level, fmt::format(format, std::forward<Args>(args)...));
  }

  LogLevel lowest_;
  Sink sink_;
};

}  // namespace weft
