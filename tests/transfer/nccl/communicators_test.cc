#include <gtest/gtest.h>

#include <array>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"
#include "transfer/nccl/choose_communicators.h"
#include "transfer/nccl/communicator_cache.h"
#include "transfer/nccl/device_path.h"

namespace weft::transfer {
namespace {

CommunicatorGroup group(std::initializer_list<std::uint32_t> devices) {
  std::vector<DeviceId> ids;
  for (const std::uint32_t device : devices) ids.emplace_back(device);
  return CommunicatorGroup::of(ids);
}

/// Plans rows of [8,4] on `from` to the whole tensor on each of `to`.
ReshardPlan gather(const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to) {
  const Shape shape = {8, 4};
  ReshardTask task{{DType::kF32, shape}, {shape, {}}, {shape, {}}};
  const std::int64_t n = from.size();
  for (std::int64_t i = 0; i < n; ++i)
    task.source.shards.push_back(
        {DeviceId(from[i]), Region({{8 * i / n, 8 * (i + 1) / n}, {0, 4}})});
  for (const std::uint32_t device : to)
    task.destination.shards.push_back({DeviceId(device), Region::whole(shape)});
  return plan_reshard(task, Topology::dense({4, 4}), ReshardAlgorithm::kBroadcast);
}

TEST(Communicators, BothDirectionsBetweenTwoMeshesShareTheirs) {
  const ReshardPlan forward = gather({0, 1}, {4, 5}), backward = gather({4, 5}, {0, 1});
  const std::array transfers = {ProgramTransfer{0, &forward}, ProgramTransfer{1, &backward}};
  const auto choice = choose_communicators(transfers, 1);
  EXPECT_EQ(choice.groups, std::vector{group({0, 1, 4, 5})});
  EXPECT_TRUE(choice.broadcasts.empty()) << "no room";
}

TEST(Communicators, WithRoomEachSetOfReceiversHasOne) {
  const ReshardPlan plan = gather({0, 1}, {4, 5});
  const std::array transfers = {ProgramTransfer{0, &plan}};
  const auto choice = choose_communicators(transfers, 12);
  EXPECT_EQ(choice.groups, (std::vector{group({0, 4, 5}), group({1, 4, 5})}))
      << "and none for sends, which nobody needs";
  const LoweredTransfer lowered = lower_program(transfers, choice).at(0);
  EXPECT_EQ(to_string(lowered.part(DeviceId(5))),
            "device 5, 0 B of staging\n"
            "  round 0 on {0,4,5}: broadcast 64 u8 to destination 0+0 from rank 0\n"
            "  round 1 on {1,4,5}: broadcast 64 u8 to destination 0+64 from rank 0");
}

TEST(Communicators, TooManyUnionsBecomeOne) {
  const ReshardPlan a = gather({0}, {1}), b = gather({0}, {2}), c = gather({0}, {3});
  const std::array transfers = {ProgramTransfer{0, &a}, ProgramTransfer{1, &b},
                                ProgramTransfer{2, &c}};
  EXPECT_EQ(choose_communicators(transfers, 3).groups.size(), 3u);
  EXPECT_EQ(choose_communicators(transfers, 2).groups, std::vector{group({0, 1, 2, 3})});
}

TEST(Communicators, CollectivesThatNeedTooManyAreRefused) {
  const Topology topology = Topology::dense({4});
  const Region box({{0, 4}});
  const auto a = plan_all_reduce(DType::kF32, box, {DeviceId(0), DeviceId(1)}, topology);
  const auto b = plan_all_reduce(DType::kF32, box, {DeviceId(0), DeviceId(2)}, topology);
  const std::array transfers = {ProgramTransfer{0, &a}, ProgramTransfer{1, &b}};
  EXPECT_EQ(choose_communicators(transfers, 2).groups.size(), 2u);
  EXPECT_THAT([&] { choose_communicators(transfers, 1); },
              test::throws_error(ErrorCode::kResourceExhausted,
                                 "a device needs more than 1 communicators"));
}

TEST(Communicators, AFlowThatIsPassedOnCrossesHopAfterHopInPieces) {
  const ReshardPlan plan = gather({0}, {4, 5});
  LoweringOptions options;
  options.relay_chunk_bytes = 64;
  const LoweredTransfer lowered = lower(plan, options);  // 128 bytes, 0 -> 4 -> 5
  ASSERT_EQ(plan.flows.at(0).edges.size(), 2u);
  ASSERT_EQ(plan.flows.at(0).edges.at(1).parent, DeviceId(4)) << to_string(plan);
  EXPECT_EQ(to_string(lowered.part(DeviceId(4))),
            "device 4, 0 B of staging\n"
            "  round 0 on {0,4,5}: receive 64 u8 to destination 0+0 from rank 0\n"
            "  round 1 on {0,4,5}: send 64 u8 of destination 0+0 for rank 2; receive 64 u8 to "
            "destination 0+64 from rank 0\n"
            "  round 2 on {0,4,5}: send 64 u8 of destination 0+64 for rank 2");
}

TEST(CommunicatorCache, KeepsTheMostRecentlyUsed) {
  CommunicatorCache ledger(2);
  EXPECT_EQ(ledger.ensure(std::array{group({0, 1}), group({0, 2})}).create.size(), 2u);
  EXPECT_TRUE(ledger.ensure(std::array{group({0, 1})}).create.empty());
  const auto changes = ledger.ensure(std::array{group({0, 3})});
  EXPECT_EQ(changes.create, std::vector{group({0, 3})});
  EXPECT_EQ(changes.destroy, std::vector{group({0, 2})}) << "{0,1} was needed later";
  // Devices below the limit keep their communicators.
  EXPECT_TRUE(ledger.ensure(std::array{group({4, 5}), group({4, 6})}).destroy.empty());
  EXPECT_EQ(ledger.size(), 4u);
  EXPECT_THAT(
      [&] {
        ledger.ensure(std::array{group({0, 1}), group({0, 2}), group({0, 3})});
      },
      test::throws_error(ErrorCode::kResourceExhausted,
                         "device 0 would be a member of 3 communicators at once"));
}

TEST(CommunicatorCache, AfterADeathTheSurvivorsGroupsRemain) {
  CommunicatorCache ledger;
  ledger.ensure(
      std::array{group({0, 1, 2}), group({0, 1, 3}), group({0, 1}), group({2, 3}), group({0, 4})});
  EXPECT_EQ(ledger.shrink(std::array{DeviceId(2), DeviceId(3)}), std::vector{group({0, 1})});
  EXPECT_TRUE(ledger.ensure(std::array{group({0, 1})}).create.empty());
  EXPECT_EQ(ledger.ensure(std::array{group({0, 4})}).create.size(), 1u)
      << "had no dead member, and was aborted";
}

TEST(DevicePath, TheLibraryCarriesWhatIsBetweenDifferentGpusOnly) {
  const DeviceCapabilities gpu{DeviceId(0), true, "0000:01:00.0", "a", "NCCL 2.28.9", ""};
  DeviceCapabilities other = gpu;
  other.device = DeviceId(1);
  const auto choose = [&] { return choose_path(std::array{gpu, other}); };
  EXPECT_NE(choose().reason.find("devices 0 and 1 are the same GPU"), std::string::npos)
      << choose().reason;
  other.library_host = "b";
  EXPECT_EQ(choose().path, PathChoice::Path::kCollectives)
      << "processes of different hosts, as the library sees it";
  other = gpu;
  other.device = DeviceId(1);
  other.processor = "0000:02:00.0";
  EXPECT_EQ(choose().path, PathChoice::Path::kCollectives);
  other.library = "NCCL 2.30.7";
  EXPECT_EQ(choose().reason, "device 0 has NCCL 2.28.9 and device 1 has NCCL 2.30.7");
  other.library = "";
  other.library_error = "libnccl.so.2 was not found";
  EXPECT_EQ(choose().reason, "device 1 has no collectives: libnccl.so.2 was not found");
  other.is_gpu = false;
  EXPECT_EQ(choose().reason, "device 1 is not a GPU");
}

}  // namespace
}  // namespace weft::transfer
