#include "apps/cli/reshard_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "apps/cli/random_request.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "tests/support/thrown_error.h"
#include "transfer/reshard/plan_stats.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;
using transfer::DeviceId;

ReshardRequest request() { return {"8x6", "f32", "2x2:S0,R", "1x3:R,S1", {}, "1gbit", {}}; }

std::string refusal(const ReshardRequest& request) {
  return test::error_message(ErrorCode::kInvalidArgument, [&] { parse_reshard_request(request); });
}

TEST(ReshardRequest, PlacesTheDestinationAfterTheSource) {
  const ReshardProblem problem = parse_reshard_request(request());
  EXPECT_EQ(to_string(problem.task.type), "f32[8,6]");
  // Three hosts of three devices. The source uses two devices on each of the first two hosts.
  EXPECT_EQ(problem.topology.num_devices(), 9u);
  EXPECT_EQ(problem.source.devices(),
            (std::vector<DeviceId>{DeviceId(0), DeviceId(1), DeviceId(3), DeviceId(4)}));
  EXPECT_EQ(problem.destination.devices(),
            (std::vector<DeviceId>{DeviceId(6), DeviceId(7), DeviceId(8)}));
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
  EXPECT_THAT(with([](auto& r) { r.dtype = "f16"; }),
              HasSubstr("expected f32, i32, f64, u8 or bf16"));
  EXPECT_THAT(with([](auto& r) { r.from = "2x2"; }), HasSubstr("expected HOSTSxDEVICES:SPEC"));
  EXPECT_THAT(with([](auto& r) { r.from = "2x2:S0"; }), HasSubstr("2 dimensions and the spec 1"));
  EXPECT_THAT(with([](auto& r) { r.from = "2x2:S0,S0"; }),
              HasSubstr("axis 0 splits more than once"));
  EXPECT_THAT(with([](auto& r) { r.to = "1x3:R,S2"; }), HasSubstr("'S2' is not one of"));
  EXPECT_THAT(with([](auto& r) { r.to = "4x4:S01,R"; }), HasSubstr("--to"));
  EXPECT_THAT(with([](auto& r) { r.rate = "fast"; }), HasSubstr("--rate fast: expected a rate"));
  EXPECT_THAT(with([](auto& r) { r.link_rates = {"7=1gbit"}; }), HasSubstr("a host from 0 to 2"));
}

TEST(ReshardRequest, SizesAtTheEdgesOfIntegersAreRefusedByTheirOptionOrPlannedInFull) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t k31 = std::int64_t{1} << 31, k32 = std::int64_t{1} << 32,
                         k62 = std::int64_t{1} << 62;
  const std::vector<std::int64_t> sizes = {1,   4,       k31 - 1, k31, k31 + 1,   k32 - 1,
                                           k32, k32 + 1, k62 - 1, k62, kMost - 1, kMost};
  const char* specs[][2] = {{"1x2:S0", "1x2:R"},     {"1x2:R", "1x2:S1"},
                            {"2x2:S01", "1x3:S1"},   {"1x2:R,S1", "2x1:S0,R"},
                            {"1x2:S1,R", "1x2:R,R"}, {"1x1:R,R,R", "2x2:R,S1,S0"}};
  PhiloxStream random(20261122);
  int planned = 0;
  for (int round = 0; round < 400; ++round) {
    const auto& [from, to] = specs[random.below(std::size(specs))];
    const auto rank = static_cast<std::size_t>(std::ranges::count(std::string_view(from), ',')) + 1;
    ReshardRequest fuzzed{"", random.below(2) == 0 ? "f32" : "u8", from, to, {}, "1gbit", {}};
    for (std::size_t d = 0; d < rank; ++d)
      fuzzed.shape += fmt::format("{}{}", d == 0 ? "" : "x", sizes[random.below(sizes.size())]);
    SCOPED_TRACE(fmt::format("{} {} {} -> {}", fuzzed.shape, fuzzed.dtype, from, to));
    try {
      const ReshardProblem problem = parse_reshard_request(fuzzed);
      const transfer::ReshardPlan plan = transfer::plan_reshard(
          problem.task, problem.topology, problem.network, transfer::ReshardAlgorithm::kWeft);
      const transfer::PlanStats stats = transfer::plan_stats(plan);
      std::uint64_t wanted = 0, received = stats.bytes_copied;
      for (const transfer::Shard& shard : problem.task.destination.shards)
        wanted += shard.region.num_elements() * size_of(problem.task.type.dtype);
      for (const std::uint64_t bytes : stats.received_by_device) received += bytes;
      EXPECT_GE(received, wanted);  // includes bytes that a device only relays
      EXPECT_LE(received, problem.task.type.bytes() * problem.topology.num_devices());
      ++planned;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_TRUE(error.message().starts_with("--")) << error.message();
    }
  }
  EXPECT_GT(planned, 50);
}

TEST(ReshardRequest, MoreDevicesThanAPlanCanBeMadeForAreRefused) {
  const auto with = [](auto&& change) {
    ReshardRequest changed = request();
    change(changed);
    return refusal(changed);
  };
  EXPECT_THAT(with([](auto& r) { r.to_first_host = std::numeric_limits<std::size_t>::max(); }),
              HasSubstr("--to-first-host"));
  EXPECT_THAT(with([](auto& r) { r.from = "4096x1048576:R,R"; }),
              HasSubstr("too many to plan for one task"));
  EXPECT_THAT(with([](auto& r) { r.from = "4294967296x4294967296:R,R"; }), HasSubstr("--from"));
}

TEST(RandomReshardRequest, SmallTensorsAreMadeOrRefusedAndNeverSoughtForEver) {
  std::mt19937_64 random(kRandomRequestSeed);
  for (int task = 0; task < 50; ++task) {
    for (const std::int64_t bytes : {16 << 10, 1 << 20, 2 << 20})
      EXPECT_NE(random_reshard_request(random, bytes, 1'000'000'000).shape, "");
  }
  EXPECT_THAT([&] { random_reshard_request(random, 0, 1'000'000'000); },
              test::throws_error(ErrorCode::kInvalidArgument, "at least 16 KiB, not 0 bytes"));
}

TEST(RandomReshardRequest, NamesEachLinkOnce) {
  std::mt19937_64 random(kRandomRequestSeed);
  std::size_t with_two = 0;
  for (int round = 0; round < 500; ++round) {
    const ReshardRequest request = random_reshard_request(random, 64 << 20, 1'000'000'000);
    std::set<std::string> named;
    for (const std::string& link : request.link_rates)
      EXPECT_TRUE(named.insert(link.substr(0, link.find('='))).second) << command_words(request);
    if (named.size() == 2) ++with_two;
  }
  EXPECT_GT(with_two, 0u);
}

}  // namespace
}  // namespace weft::apps
