#include "apps/plan_options/plan_options.h"

#include <gtest/gtest.h>

namespace weft::apps {
namespace {

PlanOptions read_again(const PlanOptions& options) {
  return PlanOptions::of(actors::RoleArguments(options.to_arguments(), {}));
}

TEST(PlanOptions, AreReadAsWritten) {
  const PlanOptions none = read_again({});
  EXPECT_EQ(none.programs, "");
  EXPECT_FALSE(none.strategy);
  EXPECT_EQ(read_again({.programs = "front[0,1]"}).programs, "front[0,1]");
  EXPECT_EQ(read_again({.strategy = ""}).strategy, "") << "all meshes";
  EXPECT_EQ(read_again({.strategy = "front"}).strategy, "front");
  EXPECT_EQ(read_again({.layouts = "1d,3d", .svg = "a.svg"}).layouts, "1d,3d");
  EXPECT_EQ(read_again({.layouts = "1d,3d", .svg = "a.svg"}).svg, "a.svg");
}

}  // namespace
}  // namespace weft::apps
