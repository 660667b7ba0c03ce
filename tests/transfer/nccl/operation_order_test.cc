#include "transfer/nccl/operation_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

TimelineStep work(double seconds) { return TimelineWork{seconds}; }
TimelineStep start(std::uint32_t op, int microbatch = 0) { return TimelineStart{{op, microbatch}}; }
TimelineStep wait(std::uint32_t op, int microbatch = 0) { return TimelineWait{{op, microbatch}}; }

/// Enqueues each device's operations on its stream in the given order. Returns true if all devices
/// finish. This is the strictest model: an enqueued operation blocks the host until all members
/// have joined.
bool finishes(const std::vector<DeviceTimeline>& timelines,
              const std::vector<OperationKey>& order) {
  struct Device {
    std::vector<OperationKey> order;
    std::size_t next = 0, enqueued = 0;
    std::set<OperationKey> started;
  };
  std::set<std::uint32_t> ops;
  for (const OperationKey& key : order) ops.insert(key.op);
  std::map<OperationKey, std::size_t> members, present;
  std::vector<Device> devices;
  for (const DeviceTimeline& timeline : timelines) {
    devices.push_back({order_of_device(order, timeline, ops), 0, 0, {}});
    for (const OperationKey& key : devices.back().order) ++members[key];
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      Device& device = devices[d];
      const auto met = [&](const OperationKey& key) { return present[key] == members[key]; };
      for (;;) {
        // The host waits at an enqueued operation until all members have joined.
        if (device.enqueued > 0 && !met(device.order[device.enqueued - 1])) break;
        if (device.enqueued < device.order.size() &&
            device.started.contains(device.order[device.enqueued])) {
          ++present[device.order[device.enqueued++]];
          moved = true;
          continue;
        }
        if (device.next == timelines[d].steps.size()) break;
        const TimelineStep& step = timelines[d].steps[device.next];
        if (const auto* begun = std::get_if<TimelineStart>(&step))
          device.started.insert(begun->key);
        if (const auto* awaited = std::get_if<TimelineWait>(&step)) {
          const auto at = std::find(device.order.begin(), device.order.end(), awaited->key);
          if (static_cast<std::size_t>(at - device.order.begin()) >= device.enqueued) break;
        }
        ++device.next;
        moved = true;
      }
    }
  }
  return std::all_of(devices.begin(), devices.end(),
                     [](const Device& device) { return device.enqueued == device.order.size(); });
}

TEST(OperationOrder, AReceiveThatIsStartedEarlyComesWhenItsSenderIsReady) {
  // Device 1 starts the receive of microbatch 0's gradient before it sends the activation.
  const std::vector<DeviceTimeline> timelines = {
      {DeviceId(0), {start(0), wait(0), work(2), start(1), wait(1)}},
      {DeviceId(1), {start(1), work(1), start(0), wait(1), wait(0)}},
  };
  const auto order = total_order(timelines);
  EXPECT_EQ(order, (std::vector<OperationKey>{{0, 0}, {1, 0}}));
  EXPECT_TRUE(finishes(timelines, order));
  EXPECT_FALSE(finishes(timelines, {{1, 0}, {0, 0}}));
}

TEST(OperationOrder, AnOperationAfterAWaitComesLaterEvenIfNoTimePasses) {
  const std::vector<DeviceTimeline> timelines = {
      {DeviceId(0), {start(7), wait(7), start(3), wait(3)}},
      {DeviceId(1), {start(3), start(7), wait(7), wait(3)}},
  };
  EXPECT_EQ(total_order(timelines), (std::vector<OperationKey>{{7, 0}, {3, 0}}));
}

TEST(OperationOrder, ProgramsThatWaitForEachOtherAreRefused) {
  const std::vector<DeviceTimeline> timelines = {
      {DeviceId(0), {start(0), wait(0), start(1), wait(1)}},
      {DeviceId(1), {start(1), wait(1), start(0), wait(0)}},
  };
  EXPECT_THAT([&] { total_order(timelines); },
              test::throws_error(
                  ErrorCode::kInternal,
                  "device 0 waits for op 0 microbatch 0, which 1 of its 2 devices have started"));
}

TEST(OperationOrder, RandomProgramsThatCanFinishDoSoInTheOrder) {
  std::mt19937_64 random(3);
  int finished = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const std::size_t num_devices = 2 + random() % 4;
    std::vector<std::vector<OperationKey>> own(num_devices);
    for (std::uint32_t op = 0; op < 8; ++op) {
      for (std::size_t d = 0; d < num_devices; ++d) {
        if (random() % 2 == 0) own[d].push_back({op, static_cast<std::int32_t>(random() % 1)});
      }
    }
    std::vector<DeviceTimeline> timelines;
    for (std::uint32_t d = 0; d < num_devices; ++d) {
      // Starts precede their waits; all else is random.
      std::vector<TimelineStep> steps;
      std::shuffle(own[d].begin(), own[d].end(), random);
      std::vector<OperationKey> open;
      for (const OperationKey& key : own[d]) {
        steps.emplace_back(TimelineWork{static_cast<double>(random() % 3)});
        steps.emplace_back(TimelineStart{key});
        open.push_back(key);
        while (!open.empty() && random() % 3 == 0) {
          std::swap(open[random() % open.size()], open.back());
          steps.emplace_back(TimelineWait{open.back()});
          open.pop_back();
        }
      }
      for (const OperationKey& key : open) steps.emplace_back(TimelineWait{key});
      timelines.push_back({DeviceId(d), std::move(steps)});
    }
    std::vector<OperationKey> order;
    try {
      order = total_order(timelines);
    } catch (const Error&) {
      continue;  // No order lets these programs finish.
    }
    ++finished;
    ASSERT_TRUE(finishes(timelines, order));
  }
  EXPECT_GT(finished, 50);
}

}  // namespace
}  // namespace weft::transfer
