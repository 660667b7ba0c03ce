#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "transfer/execute/transfer_engine.h"
#include "transfer/reshard/plan.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {
namespace {

/// Wire that sends by TCP to one peer. The peer dies after the first payload or on demand. The wire
/// reports that after the earlier ends of sends, as Wire allows.
class DyingPeerWire final : public Wire {
 public:
  DeviceId self() const override { return DeviceId(0); }
  std::vector<std::byte> address() const override { return {}; }
  void set_events(WireEvents& events) override { events_ = &events; }
  void connect(DeviceId, HostId, std::span<const std::byte>) override { connected_ = true; }
  void drop(DeviceId) override { connected_ = false; }
  bool is_connected(DeviceId) const override { return connected_; }
  Path path_to(DeviceId) const override {
    WEFT_CHECK(connected_, "asked for the path to a device that is not connected");
    return Path::kTcp;
  }
  void send(DeviceId, std::span<const std::byte>, std::span<const std::byte> payload,
            Token token) override {
    sent_.push_back({token, payload.size()});
  }
  void receive(MessageId, std::span<std::byte>, Token) override {}
  void release(MessageId) override {}
  std::size_t progress() override {
    if (sent_.empty()) return 0;
    const auto [token, bytes] = sent_.front();
    sent_.pop_front();
    const bool dies = connected_ && bytes != 0;
    if (dies) connected_ = false;
    events_->send_finished(token, connected_ || dies
                                      ? Outcome<void>()
                                      : Error(ErrorCode::kUnavailable, "not connected"));
    if (dies) events_->peer_lost(DeviceId(1), Error(ErrorCode::kPeerDied, "gone"));
    return 1;
  }
  void wait(Nanoseconds) override {}
  void wake() override {}

  void end_peer() { connected_ = false; }

 private:
  WireEvents* events_ = nullptr;
  bool connected_ = false;
  std::deque<std::pair<Token, std::size_t>> sent_;
};

/// Device 0 with an engine that the test steps, and a tensor for device 1.
class LostPeer : public testing::Test {
 protected:
  LostPeer() {
    EngineOptions options;
    options.mode = EngineOptions::Mode::kStepped;
    auto wire = std::make_unique<DyingPeerWire>();
    wire_ = wire.get();
    engine_.emplace(std::move(wire), clock_, options);
    engine_->connect(DeviceId(1), HostId(1), {});
    const Shape shape = {4 << 20};
    const Region whole = Region::whole(shape);
    part_ = plan_reshard({{DType::kF32, shape},
                          {shape, {{DeviceId(0), whole}}},
                          {shape, {{DeviceId(1), whole}}}},
                         Topology::dense({1, 1}), ReshardAlgorithm::kBroadcast)
                .device_part(DeviceId(0));
    source_.resize(part_.tensors.front().source_bytes());
  }

  void start(std::uint64_t step) {
    const std::span<const std::byte> sources[] = {source_};
    const std::span<std::byte> destinations[] = {{}};
    engine_->start(part_, {1, step, 1, 1}, sources, destinations, {std::chrono::hours(1)},
                   [this](const TransferReport& report) { outcome_ = report.outcome; });
  }
  /// Returns the error of the last transfer.
  ErrorCode end() {
    outcome_.reset();
    for (int i = 0; i < 1000 && !outcome_; ++i) engine_->poll();
    WEFT_CHECK(outcome_ && !outcome_->ok(),
               "a transfer to a lost device did not end, or not as it should");
    return outcome_->error().code();
  }

  ManualClock clock_;
  DevicePart part_;
  std::vector<std::byte> source_;
  DyingPeerWire* wire_ = nullptr;
  std::optional<Outcome<void>> outcome_;
  std::optional<TransferEngine> engine_;
};

TEST_F(LostPeer, MoreIsSentInTheEndOfASendThatIsToldAfterThePeerIsGone) {
  start(1);
  EXPECT_EQ(end(), ErrorCode::kPeerDied);
}

TEST_F(LostPeer, ATransferStartsWhenTheWireKnowsAndHasNotTold) {
  wire_->end_peer();
  start(1);
  EXPECT_EQ(end(), ErrorCode::kPeerDied);
}

TEST_F(LostPeer, ADroppedPeerCanBeConnectedAgain) {
  start(1);
  engine_->cancel_all(Error(ErrorCode::kCancelled, "enough"));
  EXPECT_EQ(end(), ErrorCode::kCancelled);
  start(2);
  EXPECT_EQ(end(), ErrorCode::kFailedPrecondition);
  engine_->connect(DeviceId(1), HostId(1), {});
  start(3);
  EXPECT_EQ(end(), ErrorCode::kPeerDied);
}

}  // namespace
}  // namespace weft::transfer
