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

/// Sends by tcp to one peer, which ends after the first payload: the wire knows it at once, and tells the ends of sends that it
/// had noted before first, as Wire allows.
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
  void send(DeviceId, std::span<const std::byte>, std::span<const std::byte> payload, Token token) override {
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
    events_->send_finished(token, connected_ || dies ? Outcome<void>() : Error(ErrorCode::kUnavailable, "not connected"));
    if (dies) events_->peer_lost(DeviceId(1), Error(ErrorCode::kPeerDied, "gone"));
    return 1;
  }
  void wait(Nanoseconds) override {}
  void wake() override {}

 private:
  WireEvents* events_ = nullptr;
  bool connected_ = false;
  std::deque<std::pair<Token, std::size_t>> sent_;
};

TEST(LostPeer, MoreIsSentInTheEndOfASendThatIsToldAfterThePeerIsGone) {
  ManualClock clock;
  EngineOptions options;
  options.mode = EngineOptions::Mode::kStepped;
  TransferEngine engine(std::make_unique<DyingPeerWire>(), clock, options);
  engine.connect(DeviceId(1), HostId(1), {});

  const Shape shape = {4 << 20};
  const Region whole = Region::whole(shape);
  const DevicePart part = plan_reshard({{DType::kF32, shape}, {shape, {{DeviceId(0), whole}}}, {shape, {{DeviceId(1), whole}}}},
                                       Topology::dense({1, 1}), Strategy::kBroadcast)
                              .device_part(DeviceId(0));
  const std::vector<std::byte> source(part.tensors.front().source_bytes());
  const std::span<const std::byte> sources[] = {source};
  const std::span<std::byte> destinations[] = {{}};
  std::optional<Outcome<void>> outcome;
  engine.start(part, {1, 1, 1, 1}, sources, destinations, {std::chrono::hours(1)},
               [&](const TransferReport& report) { outcome = report.outcome; });
  for (int i = 0; i < 1000 && !outcome; ++i) engine.poll();
  ASSERT_TRUE(outcome && !outcome->ok());
  EXPECT_EQ(outcome->error().code(), ErrorCode::kPeerDied);
}

}  // namespace
}  // namespace weft::transfer
