// Tests the order of NCCL calls in the life of a communicator, with a test double of NCCL.
#include "transfer/nccl_plugin/internal/nccl_communicator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/thrown_error.h"
#include "tests/transfer/nccl_plugin/on_double/nccl_double.h"

namespace weft::transfer {
namespace {

using test::nccl_double;
using State = DeviceCommunicator::State;

class NcclCommunicatorOnDouble : public testing::Test {
 protected:
  void SetUp() override { nccl_double = {}; }
  void TearDown() override {
    EXPECT_EQ(nccl_double.communicators, 0);
    EXPECT_EQ(nccl_double.open_groups, 0);
    for (const std::string& call : nccl_double.calls)
      EXPECT_FALSE(call.starts_with("wrong")) << call;
  }

  static std::unique_ptr<DeviceCommunicator> create() {
    return std::make_unique<NcclCommunicator>(0, ncclUniqueId{}, 3, 0, 8, "three");
  }
  static void settle(DeviceCommunicator& communicator) {
    int busy = 0;
    while (communicator.poll() == State::kBusy) ++busy;
    EXPECT_GT(busy, 0);
  }
  static std::unique_ptr<DeviceCommunicator> created() {
    auto communicator = create();
    settle(*communicator);
    return communicator;
  }
  void enqueue(DeviceCommunicator& communicator) {
    const std::vector<DeviceCall> calls{
        // This rank is the root of the first broadcast.
        {CallKind::kBroadcast, DType::kBF16, ReduceOp::kSum, 0, 8, buffer_, nullptr},
        {CallKind::kBroadcast, DType::kF32, ReduceOp::kSum, 1, 4, nullptr, buffer_},
        {CallKind::kSend, DType::kU8, ReduceOp::kSum, 1, 4, buffer_, nullptr},
        {CallKind::kReceive, DType::kU8, ReduceOp::kSum, 1, 4, nullptr, buffer_},
    };
    communicator.enqueue(calls, *stream_);
  }

  std::byte buffer_[64] = {};
  std::unique_ptr<CpuDevice> device_ = std::make_unique<CpuDevice>(CpuDeviceOptions{});
  std::unique_ptr<weft::Stream> stream_ = device_->create_stream();
};

TEST_F(NcclCommunicatorOnDouble, LivesFromInitToDestroy) {
  {
    const auto communicator = created();
    enqueue(*communicator);
    settle(*communicator);
    communicator->finalize();
    settle(*communicator);
  }
  EXPECT_EQ(nccl_double.calls, (std::vector<std::string>{"init", "broadcast", "broadcast", "send",
                                                         "receive", "finalize", "destroy"}));
}

TEST_F(NcclCommunicatorOnDouble, IsAbortedUnlessItsEndIsKnown) {
  create();
  created();
  {
    const auto communicator = created();
    communicator->finalize();
  }
  EXPECT_EQ(nccl_double.calls, (std::vector<std::string>{"init", "abort", "init", "abort", "init",
                                                         "finalize", "abort"}));
}

TEST_F(NcclCommunicatorOnDouble, AGroupIsClosedAlsoWhereACallFails) {
  const auto communicator = created();
  nccl_double.next_call = ncclInvalidArgument;
  EXPECT_THAT(
      [&] { enqueue(*communicator); },
      test::throws_error(ErrorCode::kInvalidArgument, "4 operations of the communicator 'three'"));
  enqueue(*communicator);
  settle(*communicator);
}

TEST_F(NcclCommunicatorOnDouble, ABusyCommunicatorRefusesCalls) {
  const auto communicator = create();
  EXPECT_THAT(
      [&] { enqueue(*communicator); },
      test::throws_error(ErrorCode::kInvalidArgument, "4 operations of the communicator 'three'"));
}

TEST_F(NcclCommunicatorOnDouble, APeersDeathIsTheErrorOfAPoll) {
  const auto communicator = created();
  nccl_double.next_state = ncclRemoteError;
  enqueue(*communicator);
  EXPECT_THAT([&] { settle(*communicator); },
              test::throws_error(ErrorCode::kPeerDied, "another rank has died or is unreachable"));
}

TEST_F(NcclCommunicatorOnDouble, OnlyACreatedCommunicatorIsRevoked) {
  const auto fresh = create();
  fresh->stop();
  EXPECT_FALSE(nccl_double.did("revoke"));
  const auto communicator = created();
  enqueue(*communicator);
  communicator->stop();  // while operations are in flight
  communicator->stop();
  EXPECT_EQ(std::ranges::count(nccl_double.calls, "revoke"), 1);
}

TEST_F(NcclCommunicatorOnDouble, SurvivorsContinueWithAShrunkCommunicator) {
  auto communicator = created();
  communicator->stop();
  settle(*communicator);
  const int excluded[] = {2};
  const auto rest = communicator->shrink(excluded);
  settle(*rest);
  communicator.reset();
  enqueue(*rest);
  settle(*rest);
  rest->finalize();
  settle(*rest);
}

TEST_F(NcclCommunicatorOnDouble, AShrunkOneMayBeGivenUpWhileNcclMakesIt) {
  const auto communicator = created();
  communicator->stop();
  settle(*communicator);
  const int excluded[] = {2};
  // Destroys the shrunk communicator, as after a deadline. NCCL still writes its pointer.
  communicator->shrink(excluded);
}

TEST_F(NcclCommunicatorOnDouble, AfterAnAbortThereIsNothingToAsk) {
  const auto communicator = created();
  communicator->abort();
  communicator->abort();
  EXPECT_THAT([&] { communicator->poll(); },
              test::throws_error(ErrorCode::kFailedPrecondition, "was aborted"));
  EXPECT_THAT([&] { enqueue(*communicator); },
              test::throws_error(ErrorCode::kFailedPrecondition, "was aborted"));
}

}  // namespace
}  // namespace weft::transfer
