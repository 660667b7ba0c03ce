#include "actors/launch/host_capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using ::testing::HasSubstr;

HostCapacity capacity_of(const std::vector<std::string>& arguments) {
  return host_capacity_of(RoleArguments(arguments, {}));
}

TEST(HostCapacity, TravelsAsArguments) {
  HostCapacity capacity;
  capacity.cpus = 7.25;
  capacity.memory = std::uint64_t{16} << 30;
  add_resource(capacity, "licence=2");
  add_resource(capacity, "scratch=0.5");
  add_label(capacity, "zone=a");
  add_label(capacity, "gpu=h100");
  EXPECT_EQ(capacity.custom.at("licence"), 2);
  EXPECT_EQ(capacity.labels.at("gpu"), "h100");
  EXPECT_EQ(capacity_of(to_arguments(capacity)), capacity);
  EXPECT_EQ(capacity_of(to_arguments(HostCapacity())), HostCapacity());
}

TEST(HostCapacity, MistakesSayWhatIsExpected) {
  HostCapacity capacity;
  add_label(capacity, "zone=a");
  EXPECT_NO_THROW(add_label(capacity, "zone=a"));
  add_resource(capacity, "licence=2");
  const auto label = [&](const std::string& text) {
    return test::error_message(ErrorCode::kInvalidArgument, [&] { add_label(capacity, text); });
  };
  const auto resource = [&](const std::string& text) {
    return test::error_message(ErrorCode::kInvalidArgument, [&] { add_resource(capacity, text); });
  };
  EXPECT_THAT(label("zone"), HasSubstr("--label zone: expected KEY=VALUE, such as zone=a"));
  EXPECT_THAT(label("zone=b"), HasSubstr("the label zone is a already"));
  EXPECT_THAT(label("=b"), HasSubstr("the key of a label: expected a name"));
  EXPECT_THAT(label("rack="), HasSubstr("the value of label rack: expected a name"));
  EXPECT_THAT(resource("licence"), HasSubstr("expected NAME=NUMBER, such as licence=2"));
  EXPECT_THAT(resource("licence=two"), HasSubstr("expected NAME=NUMBER"));
  EXPECT_THAT(resource("licence=1"), HasSubstr("licence is given twice"));
  EXPECT_THAT(resource("disk=-1"), HasSubstr("expected a number of 'disk' from 0.001"));
  EXPECT_THAT(resource("disk=nan"), HasSubstr("expected a number of 'disk'"));
  EXPECT_THAT(resource("cpus=4"), HasSubstr("give it as --cpus"));
  EXPECT_THAT(resource("a/b=4"), HasSubstr("the name of a resource: expected a name"));
  EXPECT_EQ(test::error_of([] {
              capacity_of({"--cpus", "many"});
            }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(test::error_of([] {
              capacity_of({"--memory", "16GiB"});
            }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace weft::actors
