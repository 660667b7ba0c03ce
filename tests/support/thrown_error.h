#pragma once

#include <gtest/gtest.h>

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

}  // namespace weft::test
