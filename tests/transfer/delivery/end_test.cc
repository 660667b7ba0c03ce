// Tests destruction of an engine whose last messages are never received.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/log/log.h"
#include "transfer/execute/transfer_engine.h"
#include "transfer/reshard/plan.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {
namespace {

/// Wire whose sends end only when the connection is cut, or never.
class HalfConnectedWire final : public Wire {
 public:
  enum class Cut { kEndsSends, kEndsNothing };
  explicit HalfConnectedWire(Cut cut) : cut_(cut) {}

  DeviceId self() const override { return DeviceId(0); }
  std::vector<std::byte> address() const override { return {}; }
  void set_events(WireEvents& events) override { events_ = &events; }
  void connect(DeviceId, HostId, std::span<const std::byte>) override { connected_ = true; }
  void drop(DeviceId) override { connected_ = false; }
  bool is_connected(DeviceId) const override { return connected_; }
  Path path_to(DeviceId) const override { return Path::kTcp; }
  void send(DeviceId, std::span<const std::byte>, std::span<const std::byte>,
            Token token) override {
    sent_.push_back(token);
  }
  void receive(MessageId, std::span<std::byte>, Token) override {}
  void release(MessageId) override {}
  std::size_t progress() override {
    if (connected_ || cut_ == Cut::kEndsNothing || sent_.empty()) return 0;
    for (const Token token : std::exchange(sent_, {}))
      events_->send_finished(token, Error(ErrorCode::kCancelled, "cut"));
    return 1;
  }
  void wait(Nanoseconds) override {}
  void wake() override {}

 private:
  const Cut cut_;
  WireEvents* events_ = nullptr;
  bool connected_ = false;
  std::vector<Token> sent_;
};

class EndOfAnEngine : public testing::TestWithParam<HalfConnectedWire::Cut> {};

TEST_P(EndOfAnEngine, DoesNotWaitForAMessageThatNobodyTakes) {
  std::mutex mutex;
  std::vector<std::string> lines;
  EngineOptions options;
  options.shutdown_grace = std::chrono::milliseconds(20);
  options.log = Log(LogLevel::kInfo, [&](LogLevel, const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  });
  std::optional<TransferEngine> engine;
  const SteadyClock clock;
  engine.emplace(std::make_unique<HalfConnectedWire>(GetParam()), clock, options);
  engine->connect(DeviceId(1), HostId(1), {});
  const Shape shape = {1024};
  const Region whole = Region::whole(shape);
  const DevicePart part =
      plan_reshard(
          {{DType::kF32, shape}, {shape, {{DeviceId(1), whole}}}, {shape, {{DeviceId(0), whole}}}},
          Topology::dense({1, 1}), ReshardAlgorithm::kBroadcast)
          .device_part(DeviceId(0));
  const std::span<const std::byte> sources[] = {{}};
  std::vector<std::byte> destination(1024 * 4);
  const std::span<std::byte> destinations[] = {destination};
  engine->start(part, {1, 1, 1, 1}, sources, destinations, {std::chrono::hours(1)},
                [](const TransferReport&) {});
  // Sends a note to the sending device. The note is never received.
  engine->cancel(1, 1, Error(ErrorCode::kCancelled, "not wanted"));
  engine.reset();
  const std::lock_guard lock(mutex);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("device 0 is shutting down and cuts its connection to device 1 (host "),
            std::string::npos)
      << lines[0];
}

INSTANTIATE_TEST_SUITE_P(Cuts, EndOfAnEngine,
                         testing::Values(HalfConnectedWire::Cut::kEndsSends,
                                         HalfConnectedWire::Cut::kEndsNothing));

}  // namespace
}  // namespace weft::transfer
