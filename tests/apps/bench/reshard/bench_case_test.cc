#include "apps/bench/reshard/bench_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(BenchCases, AMistypedNameGetsTheNearest) {
  const auto refusal = [](const std::string& name) {
    ReshardBenchOptions options;
    options.cases = {name};
    return test::error_of([&] { bench_cases(options); }).message();
  };
  EXPECT_THAT(refusal("paper3"),
              AllOf(StartsWith("there is no case 'paper3'; the cases: device-to-1x1, "),
                    EndsWith("; did you mean 'paper-3'?")));
  EXPECT_THAT(refusal("nothing-like-it"), EndsWith(", killed-relay"));
}

}  // namespace
}  // namespace weft::apps
