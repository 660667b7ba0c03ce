#include "core/log/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <memory>

#include "core/base/error.h"
#include "core/base/platform.h"
#include "core/base/terminal.h"
#include "core/base/utf8.h"

namespace weft {
namespace {

constexpr std::array kNames = {"debug", "info", "warning", "error"};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// Returns a log that starts each line with `message_prefix`.
Log log_to(LogLevel lowest, spdlog::sink_ptr sink, const std::string& message_prefix = {}) {
  if (Platform* platform = Platform::simulated())
    return {lowest, [platform](LogLevel level, const std::string& text) {
              platform->log(fmt::format("{}: {}", to_string(level), text));
            }};
  // Copies of the Log share the logger.
  const auto logger = std::make_shared<spdlog::logger>("weft", std::move(sink));
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  logger->set_pattern(message_prefix + "%Y-%m-%d %H:%M:%S.%e %l: %v");
  return {lowest, [logger](LogLevel level, const std::string& text) {
            logger->log(to_spdlog(level), printable(text));
          }};
}

}  // namespace

std::string_view to_string(LogLevel level) { return kNames.at(static_cast<std::size_t>(level)); }

LogLevel parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  throw_error(ErrorCode::kInvalidArgument,
              "there is no log level '{}': expected debug, info, warning or error", name);
}

Log Log::standard_output(LogLevel lowest) {
  return log_to(lowest, std::make_shared<spdlog::sinks::stdout_sink_mt>());
}

Log Log::standard_error(LogLevel lowest) {
  return log_to(lowest, std::make_shared<spdlog::sinks::stderr_sink_mt>(), message_prefix(stderr));
}

}  // namespace weft
