#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

/// What a caller can do about an error. One enumerator is one choice, not one cause.
enum class ErrorCode : int {
  kInvalidArgument = 1,  ///< The request itself is wrong; do not repeat it unchanged.
  /// A configuration file or a command line is wrong; the message has file, line and column.
  kInvalidConfig,
  kNotFound,            ///< What was named does not exist.
  kAlreadyExists,       ///< The name is taken.
  kFailedPrecondition,  ///< Right request, wrong state; the message says what must happen first.
  kUnavailable,         ///< The other side could not be reached; trying again later may help.
  kPeerDied,            ///< A process or host that had to answer is gone.
  kDeadlineExceeded,    ///< The time allowed ran out.
  kCancelled,           ///< Somebody asked for the work to stop.
  kResourceExhausted,   ///< No memory, credit, slot or device left.
  kIncompatible,        ///< Versions, interfaces or binaries do not fit together.
  kDataLoss,            ///< Stored or transmitted bytes are damaged.
  kInternal,            ///< A defect of Weft or of the handler that ran.
  kStaleEpoch,          ///< From a head that another one has replaced.
};

/// "invalid argument", "peer died", ...
std::string_view to_string(ErrorCode code);

/// The one exception type of Weft. Thrown inside a process, a value between processes.
///
/// `what()` is the message alone, written for the person who must act on it: what happened, where,
/// what to do. `where` names a place (file:line:column of a configuration, a step, a function);
/// `node` and `actor` name the process that decided that this is an error, and are empty when that
/// is this process.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& node() const { return node_; }
  const std::string& actor() const { return actor_; }
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

  /// "peer died: <message> (at <where>; from <actor> on <node>)"; parts that are empty are left
  /// out, and a node that has the name of its actor.
  std::string describe() const;

  friend bool operator==(const Error& a, const Error& b) {
    return a.code_ == b.code_ && a.message_ == b.message_ && a.where_ == b.where_ &&
           a.node_ == b.node_ && a.actor_ == b.actor_;
  }

 private:
  ErrorCode code_;
  std::string message_;
  std::string where_;
  std::string node_;
  std::string actor_;
};

/// throw_error(ErrorCode::kNotFound, "no mesh named '{}'", name)
template <typename... Args>
[[noreturn]] void throw_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Whether it follows from something that is told elsewhere: a peer is gone or does not answer, or
/// somebody asked for an end. What has caused it is worth more.
bool is_symptom(const Error& error);

/// What is being handled, as an Error: an Error as it is, any other exception as kInternal with its
/// text. Call it inside a catch block.
Error current_error();

}  // namespace weft
