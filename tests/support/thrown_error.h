#pragma once

#include <gtest/gtest.h>

#include <string>

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

/// Returns the message of the kInvalidArgument error that `function` throws.
template <typename Function>
std::string refused_argument(Function&& function) {
  const Error error = error_of(function);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  return error.message();
}

}  // namespace weft::test
