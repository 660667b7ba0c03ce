// Tests an exchange between threaded engines over every kind of wire.
#include "transfer/exchange/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "tests/contract/wire/wire_worlds.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::transfer {
namespace {

constexpr std::uint32_t kDevices = 3, kBlocks = 24;
constexpr std::size_t kBudget = 2 << 20;

/// Returns block `number` of a stream. Lengths vary from one byte to `most`.
std::vector<std::byte> block_of(std::uint32_t from, std::uint32_t to, std::uint32_t number,
                                std::size_t most) {
  const std::uint64_t seed = (from * 31 + to) * 1009 + number + 1;
  std::vector<std::byte> bytes(number % 7 == 0 ? most : 1 + seed * 7919 % most);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(seed * i >> 3);
  return bytes;
}

class ExchangeOverWire : public ::testing::TestWithParam<test::WireKind> {
 protected:
  void SetUp() override {
    for (std::uint32_t i = 0; i < kDevices; ++i)
      engines.push_back(std::make_unique<TransferEngine>(world->make(DeviceId(i)), clock));
    for (auto& engine : engines) {
      for (auto& other : engines) {
        if (engine != other)
          engine->connect(other->self(), world->host_of(other->self()), other->address());
      }
    }
  }
  void TearDown() override { engines.clear(); }

  /// Runs one device's part of an exchange. Returns a checksum per sender of the streams received;
  /// empty if the exchange failed. The device gives up after `gives_up_at` blocks.
  std::vector<std::uint32_t> take_part(std::uint32_t device, std::uint64_t step,
                                       std::optional<std::uint32_t> gives_up_at = {}) {
    struct Shared {
      std::mutex mutex;
      std::condition_variable condition;
      bool changed = false;
    };
    const auto shared = std::make_shared<Shared>();
    Exchange exchange(
        *engines[device], {1, step, 0, 0},
        {{DeviceId(0), DeviceId(1), DeviceId(2)}, kBudget, {.deadline = std::chrono::seconds(60)}},
        [shared] {
          const std::scoped_lock lock(shared->mutex);
          shared->changed = true;
          shared->condition.notify_one();
        });
    std::vector<std::uint32_t> next(kDevices), sums(kDevices);
    std::uint32_t taken = 0;
    while (!exchange.outcome()) {
      for (std::uint32_t to = 0; to < kDevices; ++to) {
        while (next[to] < kBlocks &&
               exchange.put(to, block_of(device, to, next[to], exchange.block_bytes())))
          ++next[to];
        if (next[to] == kBlocks) exchange.end_stream(to);
      }
      while (const auto block = exchange.take_block()) {
        sums[block->from()] = sums[block->from()] * 31 + crc32c(block->bytes());
        if (++taken == gives_up_at) return {};
      }
      std::unique_lock lock(shared->mutex);
      shared->condition.wait(lock, [&] { return shared->changed; });
      shared->changed = false;
    }
    if (!exchange.outcome()->ok()) failures[device] = exchange.outcome()->error().describe();
    return exchange.outcome()->ok() ? sums : std::vector<std::uint32_t>();
  }

  SteadyClock clock;
  std::unique_ptr<test::WireWorld> world = GetParam().make();
  std::vector<std::unique_ptr<TransferEngine>> engines;
  std::array<std::string, kDevices> failures;
};

TEST_P(ExchangeOverWire, EveryStreamComesWholeAndInItsOrderOneExchangeAfterTheOther) {
  const std::size_t block_bytes = BlockBudget::of(kDevices, kBudget).block_bytes;
  for (const std::uint64_t step : {1, 2}) {
    std::vector<std::vector<std::uint32_t>> sums(kDevices);
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t device = 0; device < kDevices; ++device)
        threads.emplace_back([&, device] { sums[device] = take_part(device, step); });
    }
    for (std::uint32_t to = 0; to < kDevices; ++to) {
      ASSERT_FALSE(sums[to].empty()) << failures[to];
      for (std::uint32_t from = 0; from < kDevices; ++from) {
        std::uint32_t expected = 0;
        for (std::uint32_t i = 0; i < kBlocks; ++i)
          expected = expected * 31 + crc32c(block_of(from, to, i, block_bytes));
        EXPECT_EQ(sums[to][from], expected) << from << " to " << to;
      }
    }
  }
}

TEST_P(ExchangeOverWire, AnExchangeCancelledByOneDeviceEndsOnAllWithBlocksUnderWay) {
  std::vector<std::vector<std::uint32_t>> sums(kDevices);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t device = 0; device < kDevices; ++device) {
      threads.emplace_back([&, device] {
        sums[device] =
            take_part(device, 1, device == 1 ? std::optional<std::uint32_t>(5) : std::nullopt);
      });
    }
  }
  for (const std::uint32_t device : {0u, 2u})
    EXPECT_NE(failures[device].find("the exchange was destroyed before it ended"),
              std::string::npos)
        << failures[device];
}

INSTANTIATE_TEST_SUITE_P(Wires, ExchangeOverWire, ::testing::ValuesIn(test::wire_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace weft::transfer
