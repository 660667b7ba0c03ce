#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"

namespace weft::test {

/// What `function` throws; the test fails if it throws nothing.
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

/// The message of an argument that `function` refuses.
template <typename Function>
std::string refused_argument(Function&& function) {
  const Error error = error_of(function);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  return error.message();
}

}  // namespace weft::test
