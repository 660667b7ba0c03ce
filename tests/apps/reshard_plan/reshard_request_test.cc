#include "apps/reshard_plan/reshard_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;
using transfer::DeviceId;

ReshardRequest request() { return {"8x6", "f32", "2x2:S0,R", "1x3:R,S1", {}, "1gbit", {}}; }

std::string refusal(const ReshardRequest& request) {
  try {
    parse_reshard_request(request);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "accepted";
}

TEST(ReshardRequest, PlacesTheDestinationAfterTheSource) {
  const ReshardProblem problem = parse_reshard_request(request());
  EXPECT_EQ(to_string(problem.task.type), "f32[8,6]");
  // Three hosts of three devices; the source uses the first two of its hosts' devices.
  EXPECT_EQ(problem.topology.num_devices(), 9u);
  EXPECT_EQ(problem.source.devices(), (std::vector<DeviceId>{DeviceId(0), DeviceId(1), DeviceId(3), DeviceId(4)}));
  EXPECT_EQ(problem.destination.devices(), (std::vector<DeviceId>{DeviceId(6), DeviceId(7), DeviceId(8)}));
  EXPECT_EQ(to_string(*problem.task.source.region_of(DeviceId(4))), "[4:8,0:6]");
  EXPECT_EQ(to_string(*problem.task.destination.region_of(DeviceId(7))), "[0:8,2:4]");
  EXPECT_DOUBLE_EQ(problem.network.host(transfer::HostId(2)).egress(), 125e6);
}

TEST(ReshardRequest, MeshesMayOverlapAndLinksDiffer) {
  ReshardRequest overlapping = request();
  overlapping.to_first_host = 1;
  overlapping.link_rates = {"1=100mbit"};
  const ReshardProblem problem = parse_reshard_request(overlapping);
  EXPECT_EQ(problem.topology.num_hosts(), 2u);
  EXPECT_EQ(problem.destination.devices().front(), DeviceId(3));
  EXPECT_DOUBLE_EQ(problem.network.host(transfer::HostId(1)).ingress(), 12.5e6);
  EXPECT_DOUBLE_EQ(problem.network.host(transfer::HostId(0)).ingress(), 125e6);
}

TEST(ReshardRequest, SaysWhichOptionIsWrong) {
  const auto with = [](auto&& change) {
    ReshardRequest changed = request();
    change(changed);
    return refusal(changed);
  };
  EXPECT_THAT(with([](auto& r) { r.shape = "8x0"; }), HasSubstr("--shape 8x0"));
  EXPECT_THAT(with([](auto& r) { r.dtype = "f16"; }), HasSubstr("expected f32, i32, f64, u8 or bf16"));
  EXPECT_THAT(with([](auto& r) { r.from = "2x2"; }), HasSubstr("expected HOSTSxDEVICES:SPEC"));
  EXPECT_THAT(with([](auto& r) { r.from = "2x2:S0"; }), HasSubstr("2 dimensions and the spec 1"));
  EXPECT_THAT(with([](auto& r) { r.from = "2x2:S0,S0"; }), HasSubstr("axis 0 splits more than once"));
  EXPECT_THAT(with([](auto& r) { r.to = "1x3:R,S2"; }), HasSubstr("'S2' is not one of"));
  EXPECT_THAT(with([](auto& r) { r.to = "4x4:S01,R"; }), HasSubstr("--to"));
  EXPECT_THAT(with([](auto& r) { r.rate = "fast"; }), HasSubstr("--rate fast: expected a rate"));
  EXPECT_THAT(with([](auto& r) { r.link_rates = {"7=1gbit"}; }), HasSubstr("a host from 0 to 2"));
}

}  // namespace
}  // namespace weft::apps
