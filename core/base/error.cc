#include "core/base/error.h"

#include <new>

namespace weft {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kInvalidConfig: return "invalid configuration";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kAlreadyExists: return "already exists";
    case ErrorCode::kFailedPrecondition: return "failed precondition";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kPeerDied: return "peer died";
    case ErrorCode::kDeadlineExceeded: return "deadline exceeded";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kResourceExhausted: return "resource exhausted";
    case ErrorCode::kIncompatible: return "incompatible";
    case ErrorCode::kDataLoss: return "data loss";
    case ErrorCode::kStaleEpoch: return "stale epoch";
    case ErrorCode::kInternal: return "internal error";
  }
  return "unknown error";
}

std::string_view to_string(CallProgress progress) {
  switch (progress) {
    case CallProgress::kNoCall: return "was not made";
    case CallProgress::kNotSent: return "had not been sent";
    case CallProgress::kNotStarted: return "had not been started";
    case CallProgress::kMayHaveStarted: return "had been sent; whether it ran is unknown";
    case CallProgress::kStarted: return "had given values and did not end";
    case CallProgress::kFailed: return "had failed";
    case CallProgress::kReplyLost: return "had run, and its result was lost";
  }
  return "has an unknown progress";
}

std::string Error::describe() const {
  std::string text = fmt::format("{}: {}", to_string(code_), message_);
  std::string context;
  if (!where_.empty()) context = "at " + where_;
  if (!actor_.empty() || !node_.empty()) {
    if (!context.empty()) context += "; ";
    context += "from ";
    context += actor_;
    // A device process has the same name as its actor.
    if (!node_.empty() && node_ != actor_) context += (actor_.empty() ? "" : " on ") + node_;
  }
  return context.empty() ? text : text + " (" + context + ")";
}

bool is_secondary_failure(const Error& error) {
  return error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kUnavailable ||
         error.code() == ErrorCode::kCancelled;
}

namespace {
std::string out_of_memory_text(const std::bad_alloc& error) {
  const std::string_view text = error.what();  // libstdc++'s default text is the class name
  return text == "std::bad_alloc" ? "out of memory" : std::string(text);
}
}  // namespace

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc& error) {
    return Error(ErrorCode::kResourceExhausted, out_of_memory_text(error));
  } catch (const std::exception& error) {
    return Error(ErrorCode::kInternal, error.what());
  } catch (...) {
    return Error(ErrorCode::kInternal, "an exception that is not a std::exception was thrown");
  }
}

}  // namespace weft
