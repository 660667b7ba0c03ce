#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "mesh/runtime/step_result.h"

namespace weft::test {

/// Expects the same loss and gradient norm of each step, to the bit.
inline void expect_same_bits(const std::vector<mesh::StepResult>& results,
                             const std::vector<mesh::StepResult>& expected) {
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t step = 0; step < results.size(); ++step) {
    EXPECT_EQ(results[step].loss, expected[step].loss) << "step " << step;
    EXPECT_EQ(results[step].grad_norm, expected[step].grad_norm) << "step " << step;
  }
}

}  // namespace weft::test
