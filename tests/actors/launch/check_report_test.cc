#include "actors/launch/check_report.h"

#include <gtest/gtest.h>

namespace weft::actors {
namespace {

TEST(CheckReport, IsReadAsWritten) {
  for (const CheckReport& report : {CheckReport{}, CheckReport{true, ""},
                                    CheckReport{false, "12ab"}, CheckReport{true, "12ab"}}) {
    const CheckReport read = CheckReport::parse(report.to_text());
    EXPECT_EQ(read.restartable, report.restartable);
    EXPECT_EQ(read.plan_digest, report.plan_digest);
  }
}

TEST(CheckReport, WithoutTextNothingIsReported) {
  EXPECT_FALSE(CheckReport::parse("").restartable);
  EXPECT_TRUE(CheckReport::parse("restartable").restartable);
  EXPECT_EQ(CheckReport::parse("restartable").plan_digest, "");
}

}  // namespace
}  // namespace weft::actors
