#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transfer/execute/transfer_engine.h"
#include "transfer/reshard/plan.h"
#include "transfer/wire/loopback_hub.h"

namespace weft::test {

/// Returns the bytes of a tensor box. Each element is a hash of its index in the tensor; 4-byte
/// elements are all different.
inline std::vector<std::byte> box_of_indices(const Region& box, const Shape& shape,
                                             std::size_t element_size) {
  std::vector<std::byte> whole(num_elements(shape) * element_size);
  for (std::size_t i = 0; i < whole.size() / element_size; ++i) {
    const std::uint64_t value = i * 0x9e3779b97f4a7c15ull + 1;
    std::memcpy(whole.data() + i * element_size, &value, element_size);
  }
  std::vector<std::byte> bytes(box.num_elements() * element_size);
  copy_region(box, element_size, Region::whole(shape), whole, box, bytes);
  return bytes;
}

/// Cluster of one stepped engine per device on a loopback hub. Runs in the test's thread.
class EngineCluster {
 public:
  explicit EngineCluster(transfer::Topology hosts, transfer::LoopbackOptions options = {},
                         transfer::EngineOptions engine_options = {})
      : topology(std::move(hosts)), hub(options) {
    engine_options.mode = transfer::EngineOptions::Mode::kStepped;
    for (std::uint32_t i = 0; i < topology.num_devices(); ++i) {
      engines.push_back(std::make_unique<transfer::TransferEngine>(
          hub.attach(transfer::DeviceId(i)), clock, engine_options));
    }
    for (auto& engine : engines) {
      for (auto& other : engines) {
        if (engine != other)
          engine->connect(other->self(), topology.host_of(other->self()), other->address());
      }
    }
  }

  /// Polls each engine once. Returns false if no engine had work.
  bool poll() {
    bool busy = false;
    for (auto& engine : engines) busy = engine->poll() || busy;
    return busy;
  }
  /// Polls until `done` or until no engine has work. Returns done().
  bool poll_until(const std::function<bool()>& done) {
    for (int idle = 0; idle < 1000 && !done();) idle = poll() ? 0 : idle + 1;
    return done();
  }

  transfer::Topology topology;
  ManualClock clock;
  transfer::LoopbackHub hub;
  // by device; destroyed before the hub
  std::vector<std::unique_ptr<transfer::TransferEngine>> engines;
};

/// Buffers, one per tensor, and the result of one device in one transfer.
struct Participant {
  transfer::DevicePart part;
  std::vector<std::vector<std::byte>> sources, destinations;
  std::optional<transfer::TransferReport> report;

  Participant(transfer::DevicePart device_part, std::vector<std::vector<std::byte>> source_bytes)
      : part(std::move(device_part)), sources(std::move(source_bytes)) {
    for (const transfer::TensorPart& tensor : part.tensors)
      destinations.emplace_back(tensor.destination_bytes(), std::byte{0xcd});
  }

  /// Buffers of a part with one tensor.
  std::vector<std::byte>& source() { return sources.front(); }
  std::vector<std::byte>& destination() { return destinations.front(); }

  void start(transfer::TransferEngine& engine, const transfer::TransferId& id,
             transfer::TransferLimits limits = {std::chrono::seconds(60)}) {
    start(engine, id, limits, [this](const transfer::TransferReport& result) {
      ASSERT_FALSE(report.has_value()) << "a second callback";
      report = result;
    });
  }
  void start(transfer::TransferEngine& engine, const transfer::TransferId& id,
             transfer::TransferLimits limits, transfer::TransferEngine::Callback callback) {
    const std::vector<std::span<const std::byte>> from(sources.begin(), sources.end());
    const std::vector<std::span<std::byte>> to(destinations.begin(), destinations.end());
    engine.start(part, id, from, to, limits, std::move(callback));
  }
};

/// Expects that each wanted box of each tensor has the contents of box_of_indices().
inline void expect_delivered(const Participant& participant, const transfer::ReshardPlan& plan) {
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    const transfer::TensorPart& tensor = participant.part.tensors[t];
    if (!tensor.destination) continue;
    EXPECT_EQ(participant.destinations[t],
              box_of_indices(*tensor.destination, plan.tasks[t].type.shape, size_of(tensor.dtype)))
        << fmt::format("tensor {} of device {}", t, participant.part.device);
  }
}

/// Makes the participants of a resharding, with sources filled by box_of_indices().
inline std::map<transfer::DeviceId, std::unique_ptr<Participant>> participants_of(
    const transfer::ReshardPlan& plan) {
  std::map<transfer::DeviceId, std::unique_ptr<Participant>> result;
  for (std::uint32_t i = 0; i < plan.topology.num_devices(); ++i) {
    transfer::DevicePart part = plan.device_part(transfer::DeviceId(i));
    if (!part.has_buffers()) continue;
    std::vector<std::vector<std::byte>> sources(part.tensors.size());
    for (std::size_t t = 0; t < sources.size(); ++t) {
      const transfer::TensorPart& tensor = part.tensors[t];
      if (tensor.source)
        sources[t] =
            box_of_indices(*tensor.source, plan.tasks[t].type.shape, size_of(tensor.dtype));
    }
    result.emplace(transfer::DeviceId(i),
                   std::make_unique<Participant>(std::move(part), std::move(sources)));
  }
  return result;
}

}  // namespace weft::test
