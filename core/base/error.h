#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

/// Kind of an error, by how a caller can react. Different causes with the same reaction share a
/// code.
enum class ErrorCode : int {
  kInvalidArgument = 1,  ///< Wrong request; do not repeat it unchanged.
  /// Wrong configuration file or command line; the message has file, line and column.
  kInvalidConfig,
  kNotFound,       ///< The named object does not exist.
  kAlreadyExists,  ///< The name is already in use.
  /// Correct request in the wrong state; the message says what must happen first.
  kFailedPrecondition,
  kUnavailable,        ///< The peer could not be reached; a retry may succeed.
  kPeerDied,           ///< A process or host that had to answer has exited or disconnected.
  kDeadlineExceeded,   ///< The allowed time has passed.
  kCancelled,          ///< The work was cancelled on request.
  kResourceExhausted,  ///< No memory, credit, slot or device is left.
  kIncompatible,       ///< Versions, interfaces or binaries do not match.
  kDataLoss,           ///< Stored or transmitted bytes are corrupt.
  kInternal,           ///< Bug in Weft or in the handler that ran.
  kStaleEpoch,         ///< The request came from a head that has been replaced.
};

/// Returns whether a received number is the code of an error.
constexpr bool is_error_code(int code) {
  return code >= static_cast<int>(ErrorCode::kInvalidArgument) &&
         code <= static_cast<int>(ErrorCode::kStaleEpoch);
}

/// Returns "invalid argument", "peer died", ...
std::string_view to_string(ErrorCode code);

/// Progress of a failed call, as its caller knows it. Repeat a call that must not run twice only
/// after kNotSent and kNotStarted.
enum class CallProgress : std::uint8_t {
  kNoCall,          ///< The error is not that of a call.
  kNotSent,         ///< The call has not left the caller's process.
  kNotStarted,      ///< The actor's process has refused it: its handler has not begun.
  kMayHaveStarted,  ///< The call was sent. No reply came.
  kStarted,         ///< The generator has given values. Its end is unknown.
  kFailed,          ///< The handler has ended with this error.
  kReplyLost,       ///< The handler has returned. Its result could not be sent or read.
};

/// Returns "had not been sent", "had been sent; whether it ran is unknown", ...: the end of a
/// sentence about a call.
std::string_view to_string(CallProgress progress);

/// The only exception type of Weft. Thrown inside a process; sent as a value between processes.
///
/// `what()` is the message alone, written for its reader: what happened, where, and what to do.
/// `where` is a place (file:line:column of a configuration, a step, a function). `node` and `actor`
/// name the process that raised the error; both are empty if it is this process. `progress` tells
/// the caller of an actor whether the call can have run. It is not sent to other processes.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& node() const { return node_; }
  const std::string& actor() const { return actor_; }
  CallProgress progress() const { return progress_; }
  const char* what() const noexcept override { return message_.c_str(); }

  Error at(std::string where) && {
    where_ = std::move(where);
    return std::move(*this);
  }
  Error from(std::string node, std::string actor) && {
    node_ = std::move(node);
    actor_ = std::move(actor);
    return std::move(*this);
  }

  Error with(CallProgress progress) && {
    progress_ = progress;
    return std::move(*this);
  }

  /// Returns "peer died: <message> (at <where>; from <actor> on <node>)". Omits empty parts, and
  /// the node if it has the same name as the actor.
  std::string describe() const;

  friend bool operator==(const Error& a, const Error& b) {
    return a.code_ == b.code_ && a.message_ == b.message_ && a.where_ == b.where_ &&
           a.node_ == b.node_ && a.actor_ == b.actor_ && a.progress_ == b.progress_;
  }

 private:
  ErrorCode code_;
  CallProgress progress_ = CallProgress::kNoCall;
  std::string message_;
  std::string where_;
  std::string node_;
  std::string actor_;
};

/// Throws an Error with a formatted message:
///   throw_error(ErrorCode::kNotFound, "no mesh named '{}'", name)
template <typename... Args>
[[noreturn]] void throw_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Returns true if the error is probably the consequence of another one: a peer died or is
/// unreachable, or the work was cancelled. Prefer to report the error that caused it.
bool is_secondary_failure(const Error& error);

/// Returns the exception being handled as an Error: std::bad_alloc as kResourceExhausted, any other
/// foreign exception as kInternal, with its text. Call inside a catch block.
Error current_error();

}  // namespace weft
