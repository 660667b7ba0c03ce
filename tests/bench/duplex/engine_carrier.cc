#include "tests/bench/duplex/engine_carrier.h"

#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/support/cluster_token.h"
#include "transfer/reshard/plan.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::bench {
namespace {

using namespace transfer;

constexpr auto kDeadline = std::chrono::seconds(120);

/// Returns the part of device `self` in moving a tensor from device `from` to the other device.
DevicePart part_of(std::uint32_t self, std::uint32_t from, std::uint64_t bytes,
                   double bytes_per_second) {
  const Shape shape = {static_cast<std::int64_t>(bytes)};
  const Region whole = Region::whole(shape);
  const ReshardTask task{{DType::kU8, shape},
                         {shape, {{DeviceId(from), whole}}},
                         {shape, {{DeviceId(1 - from), whole}}}};
  return plan_reshard(task, Topology::dense({1, 1}), Network::uniform(2, bytes_per_second),
                      ReshardAlgorithm::kWeft)
      .device_part(DeviceId(self));
}

/// Tensors in one direction, on one side. Begins tensor i + in_flight when tensor i has ended.
class Flow {
 public:
  Flow(TransferEngine& engine, std::uint64_t epoch, std::uint32_t op, const Stream& stream,
       DevicePart part)
      : engine_(engine),
        epoch_(epoch),
        op_(op),
        stream_(stream),
        part_(std::move(part)),
        memory_(stream.bytes) {
    if (stream_.count == 0) done_.set_value();
  }

  void begin(bool sends) {
    sends_ = sends;
    // Receives are posted before they are needed.
    ahead_ = std::min(stream_.count, sends ? stream_.in_flight : stream_.in_flight + 1);
    next_ = ahead_;
    for (std::uint32_t i = 0; i < ahead_; ++i) start(i);
  }
  /// Waits for the last tensor. Throws the first error.
  void wait() { done_.get_future().get(); }

  // times at which tensors began and ended, in these orders
  std::vector<std::int64_t> started, ended;

 private:
  void start(std::uint32_t index) {
    const std::span<const std::byte> source = memory_, none_source;
    const std::span<std::byte> destination = memory_, none_destination;
    const auto& from = sends_ ? source : none_source;
    const auto& to = sends_ ? none_destination : destination;
    {
      const std::scoped_lock lock(mutex_);
      started.push_back(std::chrono::steady_clock::now().time_since_epoch().count());
    }
    engine_.start(part_, {epoch_, 1, op_, index}, {&from, 1}, {&to, 1}, {kDeadline},
                  [this](const TransferReport& report) { end(report); });
  }
  /// Called on the transfer thread.
  void end(const TransferReport& report) {
    if (failed_) return;
    if (!report.outcome.ok()) {
      failed_ = true;
      return done_.set_exception(std::make_exception_ptr(report.outcome.error()));
    }
    ended.push_back(std::chrono::steady_clock::now().time_since_epoch().count());
    if (next_ < stream_.count) start(next_++);
    if (ended.size() == stream_.count) done_.set_value();
  }

  TransferEngine& engine_;
  const std::uint64_t epoch_;
  const std::uint32_t op_;
  const Stream stream_;
  const DevicePart part_;
  // shared by all tensors of this direction, as the content does not matter
  std::vector<std::byte> memory_;
  bool sends_ = false, failed_ = false;
  std::uint32_t ahead_ = 0, next_ = 0;
  std::mutex mutex_;
  std::promise<void> done_;
};

}  // namespace

EngineCarrier::EngineCarrier(std::uint32_t self, double bytes_per_second, const Channel& channel)
    : self_(self),
      bytes_per_second_(bytes_per_second),
      engine_(make_ucx_wire(DeviceId(self), HostId(self),
                            {.secret = test::cluster_token(), .interfaces = "eth0"}),
              clock_) {
  engine_.connect(DeviceId(1 - self), HostId(1 - self), channel.exchange(engine_.address()));
}

Times EngineCarrier::run(const Stream& out, const Stream& in, std::int64_t start) {
  ++runs_;
  const auto part = [&](std::uint32_t from, const Stream& stream) {
    return part_of(self_, from, std::max<std::uint64_t>(stream.bytes, 1), bytes_per_second_);
  };
  // The op's number is the sender's.
  Flow sending(engine_, runs_, self_, out, part(self_, out)),
      receiving(engine_, runs_, 1 - self_, in, part(1 - self_, in));
  receiving.begin(false);
  std::this_thread::sleep_until(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(start)));
  sending.begin(true);
  sending.wait();
  receiving.wait();
  return {sending.started, receiving.ended};
}

}  // namespace weft::bench
