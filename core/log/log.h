#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Returns "debug", "info", "warning" or "error".
std::string_view to_string(LogLevel level);
/// Returns the level with that name. Throws Error(kInvalidArgument), which lists all names.
LogLevel parse_log_level(std::string_view name);

/// Log of a process. Lines below the lowest level are not even formatted.
///
/// Copies write to the same sink. Created in main and passed on. Thread-safe.
class Log final {
 public:
  /// Receives lines of the lowest level and above, on the thread that logs.
  using Sink = std::function<void(LogLevel, const std::string&)>;
  Log(LogLevel lowest, Sink sink) : lowest_(lowest), sink_(std::move(sink)) {}

  /// Return logs with lines such as "2026-11-21 08:30:05.123 info: text". Each line is written at
  /// once and flushed; printable() escapes its text.
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
