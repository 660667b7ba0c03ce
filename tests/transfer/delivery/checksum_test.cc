// Tests that damaged bytes are detected.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/engine_cluster.h"

namespace weft::transfer {
namespace {

/// Chain 0 -> 1 -> 2 with 16 chunks of 1 KiB per hop. The parameter selects columns, which are
/// strided at receivers, or rows.
class DamagedChunk : public ::testing::TestWithParam<std::tuple<std::size_t, bool>> {
 protected:
  void run(std::optional<std::uint64_t> damage, EngineOptions::Checksum checksum) {
    const Topology topology = Topology::dense({1, 1, 1});
    const Shape shape = {64, 128};
    const auto [eager, columns] = GetParam();
    const Region whole = Region::whole(shape);
    const Region box = columns ? Region({{0, 64}, {0, 32}}) : Region({{0, 16}, {0, 128}});
    const Region rest = columns ? Region({{0, 64}, {32, 128}}) : Region({{16, 64}, {0, 128}});
    // Device 0 has `box`. Devices 1 and 2 have the rest and want all.
    const ReshardPlan plan =
        plan_reshard({{DType::kF32, shape},
                      {shape, {{DeviceId(0), box}, {DeviceId(1), rest}, {DeviceId(2), rest}}},
                      {shape, {{DeviceId(1), whole}, {DeviceId(2), whole}}}},
                     topology, ReshardAlgorithm::kBroadcast, {512, 512, 2});
    LoopbackOptions wire;
    wire.eager_bytes = eager;
    wire.corrupt_payload = damage;
    EngineOptions engines;
    engines.checksum = checksum;
    participants = test::participants_of(plan);
    test::EngineCluster cluster(topology, wire, engines);
    for (auto& [device, participant] : participants)
      participant->start(*cluster.engines[device.value()], {1, 1, 1, 1});
    ASSERT_TRUE(cluster.poll_until([&] {
      return std::all_of(participants.begin(), participants.end(),
                         [](const auto& p) { return p.second->report.has_value(); });
    }));
    for (const auto& [device, participant] : participants) {
      if (participant->report->outcome.ok() && checksum == EngineOptions::Checksum::kVerify)
        test::expect_delivered(*participant, plan);
    }
  }
  std::map<DeviceId, std::unique_ptr<test::Participant>> participants;
};

TEST_P(DamagedChunk, FailsTheTransferWithFlowChunkAndSender) {
  run(9, EngineOptions::Checksum::kVerify);
  const auto& outcome = participants.at(DeviceId(2))->report->outcome;
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kDataLoss);
  for (const char* part : {"chunk ", " of flow 0 of transfer epoch 1", " from device ",
                           " arrived damaged: its CRC32C is "})
    EXPECT_NE(outcome.error().message().find(part), std::string::npos) << outcome.error().message();
}

TEST_P(DamagedChunk, SoundBytesPass) {
  run(std::nullopt, EngineOptions::Checksum::kVerify);
  for (const auto& [device, participant] : participants)
    EXPECT_TRUE(participant->report->outcome.ok());
}

TEST_P(DamagedChunk, IsNotSeenWithoutChecksums) {
  run(9, EngineOptions::Checksum::kOff);
  for (const auto& [device, participant] : participants)
    EXPECT_TRUE(participant->report->outcome.ok());
}

INSTANTIATE_TEST_SUITE_P(Wires, DamagedChunk,
                         ::testing::Combine(::testing::Values(std::size_t{0}, std::size_t{4096}),
                                            ::testing::Bool()));

}  // namespace
}  // namespace weft::transfer
