#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/fake_world/fake_collectives.h"
#include "transfer/nccl/choose_communicators.h"
#include "transfer/nccl/collective_queue.h"

namespace weft::test {

/// Device of a fake world with its queue.
struct FakeGpu {
  FakeWorld::Device device;
  FakeWorld::Collectives library;
  SteadyClock clock;
  transfer::CollectiveQueue queue;
  std::unique_ptr<Stream> compute;

  FakeGpu(FakeWorld& world, std::uint32_t id, transfer::CollectiveQueueOptions options = {})
      : device(world, id),
        library(world, id),
        queue(transfer::DeviceId(id), library, device, clock, options),
        compute(device.create_stream()) {}
};

/// Transfer with the memory of its devices, by device and tensor.
struct GpuOperation {
  transfer::OperationKey key;
  transfer::LoweredTransfer lowered;
  std::map<transfer::DeviceId, std::vector<std::vector<std::byte>>> sources, destinations;
  bool in_place = false;  ///< True if sources are the destinations.

  void start(FakeGpu& gpu, transfer::DeviceId device, const transfer::DeviceOperations& part) {
    auto& to = destinations.at(device);
    auto& from = in_place ? to : sources.at(device);
    const std::vector<std::span<const std::byte>> reads(from.begin(), from.end());
    const std::vector<std::span<std::byte>> writes(to.begin(), to.end());
    gpu.queue.start(key, part, reads, writes, gpu.compute->record());
  }
};

/// GPUs in one process. Each has its own host thread.
class GpuCluster {
 public:
  explicit GpuCluster(std::size_t size, FakeWorld::Options options = {},
                      transfer::CollectiveQueueOptions queue_options = {})
      : world(options) {
    for (std::uint32_t i = 0; i < size; ++i)
      gpus.push_back(std::make_unique<FakeGpu>(world, i, queue_options));
  }

  /// Runs `work` for each device in its own thread. Returns thrown errors by device.
  std::map<std::uint32_t, Error> on(const std::vector<std::uint32_t>& devices,
                                    const std::function<void(std::uint32_t)>& work) {
    std::map<std::uint32_t, Error> errors;
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (const std::uint32_t device : devices) {
      threads.emplace_back([&, device] {
        try {
          work(device);
        } catch (const Error& error) {
          const std::lock_guard lock(mutex);
          errors.emplace(device, error);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
  std::vector<std::uint32_t> all() const {
    std::vector<std::uint32_t> devices;
    for (std::uint32_t i = 0; i < gpus.size(); ++i) devices.push_back(i);
    return devices;
  }

  std::vector<transfer::CommunicatorId> make_ids(
      std::span<const transfer::CommunicatorGroup> groups) {
    std::vector<transfer::CommunicatorId> ids;
    for (auto& gpu : gpus) {
      for (auto& id : gpu->queue.make_ids(groups)) ids.push_back(std::move(id));
    }
    return ids;
  }
  /// Creates the communicators of `groups` on all devices.
  void open(std::uint64_t epoch, const std::vector<transfer::CommunicatorGroup>& groups) {
    const transfer::CommunicatorChanges changes = ledger.ensure(groups);
    const auto ids = make_ids(changes.create);
    for (const auto& [device, error] :
         on(all(), [&](std::uint32_t device) { gpus[device]->queue.open(epoch, changes, ids); }))
      ADD_FAILURE() << "device " << device << ": " << error.describe();
  }

  FakeWorld world;
  transfer::CommunicatorCache ledger;
  std::vector<std::unique_ptr<FakeGpu>> gpus;  // destroyed before the world
};

}  // namespace weft::test
