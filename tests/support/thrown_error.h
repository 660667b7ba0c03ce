#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/error.h"

namespace weft::test {

/// Returns the error that `function` throws. The test fails if there is none.
template <typename Function>
Error error_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

/// Returns the message of the error that `function` throws; empty if it throws none. The test fails
/// if the error has another code.
template <typename Function>
std::string error_message(ErrorCode code, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.message();
    return error.message();
  }
  return "";
}

/// gMock matcher of functions that throw a certain Error; see throws_error().
class ThrowsError final {
 public:
  using is_gtest_matcher = void;

  ThrowsError(ErrorCode code, testing::Matcher<const std::string&> message)
      : code_(code), message_(std::move(message)) {}

  template <typename Function>
  bool MatchAndExplain(const Function& function, std::ostream* explanation) const {
    // gMock asks again for an explanation if there is no match. The function does not run twice.
    if (explanation == nullptr || !*has_run_) *thrown_ = error_thrown_by(function);
    *has_run_ = explanation == nullptr;
    const std::optional<Error>& error = *thrown_;
    if (explanation != nullptr) {
      if (error) *explanation << "which throws \"" << error->describe() << "\"";
      else *explanation << "which throws nothing";
    }
    return error && error->code() == code_ && message_.Matches(error->message());
  }
  void DescribeTo(std::ostream* out) const {
    *out << "throws \"" << to_string(code_) << "\" with a message that ";
    message_.DescribeTo(out);
  }
  void DescribeNegationTo(std::ostream* out) const {
    *out << "does not throw \"" << to_string(code_) << "\" with a message that ";
    message_.DescribeTo(out);
  }

 private:
  template <typename Function>
  static std::optional<Error> error_thrown_by(const Function& function) {
    try {
      function();
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

  ErrorCode code_;
  testing::Matcher<const std::string&> message_;
  // Result of the last run, for the explanation. Shared by the copies that gMock makes.
  std::shared_ptr<std::optional<Error>> thrown_ = std::make_shared<std::optional<Error>>();
  std::shared_ptr<bool> has_run_ = std::make_shared<bool>(false);
};

/// Returns a matcher of the words that a text contains; a matcher stays as it is.
template <typename Words>
testing::Matcher<const std::string&> words_matcher(const Words& words) {
  if constexpr (std::is_convertible_v<const Words&, std::string_view>)
    return testing::HasSubstr(std::string(words));
  else return words;
}

/// Returns a matcher of functions that throw an Error of this code, whose message contains all of
/// `words`. Each of `words` is a text or a matcher of strings.
///   EXPECT_THAT([&] { check_name("a host", "../x"); },
///               throws_error(ErrorCode::kInvalidArgument, "a host", "found '../x'"));
template <typename... Words>
ThrowsError throws_error(ErrorCode code, const Words&... words) {
  static_assert(sizeof...(words) > 0, "name the telling words of the message");
  return {code, testing::AllOf(words_matcher(words)...)};
}

}  // namespace weft::test
