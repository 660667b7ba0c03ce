#include "transfer/reshard/plan.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"
#include "transfer/reshard/slices.h"

namespace weft::transfer {
namespace {

Shard shard(std::uint32_t device, std::vector<Interval> intervals) {
  return {DeviceId(device), Region(std::move(intervals))};
}

/// Makes a task from rows on devices 0 and 1 (host 0) to whole tensors on 1, 2 and 3 (2 and 3: host
/// 1).
ReshardTask rows_to_replicas() {
  const Shape shape = {4, 8};
  return {{DType::kF32, shape},
          {shape, {shard(0, {{0, 2}, {0, 8}}), shard(1, {{2, 4}, {0, 8}})}},
          {shape,
           {shard(1, {{0, 4}, {0, 8}}), shard(2, {{0, 4}, {0, 8}}), shard(3, {{0, 4}, {0, 8}})}}};
}

TEST(Slices, AHolderThatWantsItsOwnBytesCopiesThem) {
  const ReshardTask task = rows_to_replicas();
  const auto slices = cut_slices(task.source, task.destination);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(
      slices[0],
      (Slice{
          Region({{0, 2}, {0, 8}}), {DeviceId(0)}, {DeviceId(1), DeviceId(2), DeviceId(3)}, {}}));
  EXPECT_EQ(
      slices[1],
      (Slice{Region({{2, 4}, {0, 8}}), {DeviceId(1)}, {DeviceId(2), DeviceId(3)}, {DeviceId(1)}}));
}

TEST(Slices, MapsThatDoNotFitAreRefused) {
  const Shape shape = {8};
  const ShardMap whole{shape, {shard(1, {{0, 8}})}};
  const auto expect_refused = [&](const ShardMap& source, const char* words) {
    EXPECT_THAT([&] { cut_slices(source, whole); },
                test::throws_error(ErrorCode::kInvalidArgument, words))
        << to_string(source);
  };
  expect_refused({shape, {shard(0, {{0, 4}})}}, "but the source holds only 4 of them");
  expect_refused({shape, {shard(0, {{0, 5}}), shard(2, {{4, 8}})}}, "overlap partly");
  expect_refused({shape, {shard(0, {{0, 4}}), shard(0, {{4, 8}})}}, "device 0 appears twice");
  expect_refused({shape, {shard(0, {{0, 9}})}}, "which is outside the tensor's shape");
  expect_refused({shape, {}}, "has no device");
  expect_refused({{9}, {shard(0, {{0, 9}})}}, "both must be the same tensor");
}

TEST(Plan, BroadcastEntersEachHostOnceAndFansOutThere) {
  const ReshardPlan plan =
      plan_reshard(rows_to_replicas(), Topology::dense({2, 2}), ReshardAlgorithm::kBroadcast);
  ASSERT_EQ(plan.flows.size(), 2u);
  for (const Flow& flow : plan.flows) {
    int crossings = 0;
    for (const FlowEdge& edge : flow.edges)
      crossings += plan.topology.host_of(edge.parent) != plan.topology.host_of(edge.child) ? 1 : 0;
    EXPECT_EQ(crossings, 1) << to_string(flow);
  }
  // The two flows enter host 1 at different devices.
  const auto entry = [&](const Flow& flow) {
    for (const FlowEdge& edge : flow.edges) {
      if (plan.topology.host_of(edge.parent) != plan.topology.host_of(edge.child))
        return edge.child;
    }
    return DeviceId(99);
  };
  EXPECT_NE(entry(plan.flows[0]), entry(plan.flows[1]));
}

TEST(Plan, DevicePartsAgreeOnEveryEdge) {
  for (const ReshardAlgorithm strategy : kStrategies) {
    const ReshardPlan plan = plan_reshard(rows_to_replicas(), Topology::dense({2, 2}), strategy);
    std::uint64_t sent = 0, received = 0;
    for (const DeviceId device : plan.devices()) {
      const DevicePart part = plan.device_part(device);
      EXPECT_FALSE(part.empty());
      sent += part.bytes_sent();
      received += part.bytes_received();
      for (const DeviceId peer : part.peers()) {
        const auto back = plan.device_part(peer).peers();
        EXPECT_TRUE(std::find(back.begin(), back.end(), device) != back.end());
      }
      EXPECT_EQ(decode<DevicePart>(encode(part)), part);
    }
    EXPECT_EQ(sent, received);
  }
  EXPECT_TRUE(
      plan_reshard(rows_to_replicas(), Topology::dense({2, 3}), ReshardAlgorithm::kBroadcast)
          .device_part(DeviceId(4))
          .empty());
}

TEST(Plan, DigestTellsPlansApartAndIsRepeatable) {
  const auto digest = [](ReshardAlgorithm strategy, ChunkOptions chunks = {}) {
    return plan_reshard(rows_to_replicas(), Topology::dense({2, 2}), strategy, chunks).digest();
  };
  EXPECT_EQ(digest(ReshardAlgorithm::kBroadcast), digest(ReshardAlgorithm::kBroadcast));
  EXPECT_NE(digest(ReshardAlgorithm::kBroadcast), digest(ReshardAlgorithm::kSendRecv));
  EXPECT_NE(digest(ReshardAlgorithm::kBroadcast),
            digest(ReshardAlgorithm::kBroadcast, {64, 64, 3}));
  EXPECT_EQ(digest(ReshardAlgorithm::kBroadcast).size(), 64u);
}

TEST(Plan, ADeviceOutsideTheTopologyIsRefused) {
  EXPECT_THAT(
      [&] {
        plan_reshard(rows_to_replicas(), Topology::dense({2, 1}), ReshardAlgorithm::kBroadcast);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "is not in the topology"));
}

TEST(Plan, PrintsItsFlowsAndCopies) {
  const std::string text = to_string(
      plan_reshard(rows_to_replicas(), Topology::dense({2, 2}), ReshardAlgorithm::kSendRecv));
  EXPECT_NE(text.find("f32[4,8] by send_recv"), std::string::npos) << text;
  EXPECT_NE(text.find("0->1"), std::string::npos) << text;
  EXPECT_NE(text.find("device 1 copies [2:4,0:8]"), std::string::npos) << text;
}

TEST(ReshardAlgorithm, NamesRoundTripAndOthersAreRefusedWithTheChoices) {
  for (const ReshardAlgorithm strategy : kStrategies)
    EXPECT_EQ(parse_strategy(to_string(strategy)), strategy);
  EXPECT_THAT([&] { parse_strategy("boadcast"); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "send_recv, local_allgather, global_allgather, "));
}

TEST(Chunks, AreWholeRowsOfNearlyEqualSizeWithinTheLimit) {
  const auto chunks = [](std::vector<Interval> region, std::uint64_t limit) {
    Flow flow;
    flow.segments = {Segment::whole(0, Region(std::move(region)), 4)};
    flow.edges = {{DeviceId(0), DeviceId(1)}};
    set_chunks(flow, 4, {limit, limit, 2});
    return std::pair(flow.bytes, flow.chunk_bytes);
  };
  EXPECT_EQ(chunks({{0, 100}}, 1024), std::pair(std::uint64_t{400}, std::uint64_t{400}))
      << "one chunk";
  EXPECT_EQ(chunks({{0, 300}}, 1024), std::pair(std::uint64_t{1200}, std::uint64_t{640}))
      << "halves, rounded up to 64";
  EXPECT_EQ(chunks({{0, 10}, {0, 50}}, 1000), std::pair(std::uint64_t{2000}, std::uint64_t{1000}))
      << "5 rows of 200 bytes";
  EXPECT_EQ(chunks({{0, 1}, {0, 1000}}, 1024).second, 1024u)
      << "a leading dimension of one is no row";
  for (std::int64_t size = 1; size < 3000; size += 7) {
    const auto [bytes, chunk] = chunks({{0, size}, {0, 3}}, 512);
    ASSERT_LE(chunk, 512u);
    ASSERT_EQ(chunk % 4, 0u);
    ASSERT_EQ(bytes, static_cast<std::uint64_t>(size) * 12);
  }
  Flow flow;
  EXPECT_THAT(
      [&] {
        set_chunks(flow, 4, {0, 64, 2});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "chunks of 0 and 64 bytes"));
  EXPECT_THAT(
      [&] {
        set_chunks(flow, 4, {64, 64, 0});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "window 0"));
}

}  // namespace
}  // namespace weft::transfer
