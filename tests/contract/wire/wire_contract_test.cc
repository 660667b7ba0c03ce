#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/contract/wire/wire_worlds.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

using test::Recorder;
using test::WireKind;

constexpr std::size_t kLarge = 300 * 1024;

std::vector<std::byte> pattern(std::size_t size, std::uint32_t seed) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

/// Contract of Wire, for every kind of wire. The test's thread owns all ends.
class WireContract : public ::testing::TestWithParam<WireKind> {
 protected:
  WireContract() : world_(GetParam().make()) {
    for (std::uint32_t i = 0; i < 2; ++i)
      ends_.push_back(std::make_unique<Recorder>(world_->make(DeviceId(i))));
    join(0, 1);
    join(1, 0);
  }

  Recorder& end(std::size_t i) { return *ends_[i]; }
  void join(std::size_t from, std::size_t to) {
    const DeviceId peer(to);
    end(from).wire->connect(peer, world_->host_of(peer), end(to).wire->address());
  }
  bool until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + test::kPatience;
    while (!done()) {
      std::size_t events = 0;
      for (auto& each : ends_) events += each == nullptr ? 0 : each->wire->progress();
      if (events == 0) ends_[0]->wire->wait(std::chrono::milliseconds(1));
      if (std::chrono::steady_clock::now() > limit) return false;
    }
    return true;
  }
  void settle() {  // a bounded number of rounds, to see that nothing happens
    for (int i = 0; i < 50; ++i) {
      for (auto& each : ends_) each->wire->progress();
      ends_[0]->wire->wait(std::chrono::microseconds(100));
    }
  }

  std::unique_ptr<test::WireWorld> world_;
  std::vector<std::unique_ptr<Recorder>> ends_;
};

TEST_P(WireContract, AMessageArrivesWithItsHeaderSenderAndSize) {
  const auto header = pattern(Wire::kMaxHeaderBytes, 1), payload = pattern(100, 2);
  end(0).wire->send(DeviceId(1), header, payload, 7);
  EXPECT_TRUE(end(0).sends.empty()) << "finished inside send()";
  ASSERT_TRUE(until([&] { return !end(1).arrived.empty(); }));
  const Recorder::Kept& message = end(1).arrived.front();
  EXPECT_EQ(message.sender, DeviceId(0));
  EXPECT_EQ(message.header, header);
  EXPECT_EQ(message.bytes, 100u);
  std::vector<std::byte> buffer(100);
  end(1).wire->receive(message.id, buffer, 9);
  EXPECT_TRUE(end(1).receives.empty()) << "finished inside receive()";
  ASSERT_TRUE(until([&] { return end(1).receives.contains(9) && end(0).sends.contains(7); }));
  EXPECT_TRUE(end(1).receives[9].front().ok());
  EXPECT_TRUE(end(0).sends[7].front().ok());
  EXPECT_EQ(buffer, payload);
}

TEST_P(WireContract, AMessageWithoutPayloadAndHeaderArrives) {
  end(0).wire->send(DeviceId(1), {}, {}, 1);
  ASSERT_TRUE(until([&] { return !end(1).arrived.empty() && end(0).sends.contains(1); }));
  EXPECT_EQ(end(1).arrived.front().bytes, 0u);
  end(1).wire->release(end(1).arrived.front().id);
}

TEST_P(WireContract, ALargePayloadStaysAtTheSenderUntilItIsReceived) {
  const auto payload = pattern(kLarge, 3);
  end(0).wire->send(DeviceId(1), pattern(40, 1), payload, 7);
  ASSERT_TRUE(until([&] { return !end(1).arrived.empty(); }));
  EXPECT_TRUE(end(1).arrived.front().payload.empty());
  settle();
  EXPECT_TRUE(end(0).sends.empty()) << "nobody has taken it";
  std::vector<std::byte> buffer(kLarge);
  end(1).wire->receive(end(1).arrived.front().id, buffer, 9);
  ASSERT_TRUE(until([&] { return end(1).receives.contains(9) && end(0).sends.contains(7); }));
  EXPECT_EQ(buffer, payload);
}

TEST_P(WireContract, AMessageMayBeReceivedInsideMessageArrived) {
  std::vector<std::byte> buffers[2];
  Token next = 0;
  end(1).at_once = [&](const Recorder::Kept& message) {
    buffers[next].resize(message.bytes);
    end(1).wire->receive(message.id, buffers[next], next);
    ++next;
  };
  const auto small = pattern(50, 4), large = pattern(kLarge, 5);
  end(0).wire->send(DeviceId(1), {}, small, 1);
  end(0).wire->send(DeviceId(1), {}, large, 2);
  ASSERT_TRUE(until([&] { return end(1).receives.size() == 2 && end(0).sends.size() == 2; }));
  EXPECT_TRUE((buffers[0] == small && buffers[1] == large) ||
              (buffers[0] == large && buffers[1] == small));
}

TEST_P(WireContract, SendsEndAlsoWhenTheirReceiverConnectsLater) {
  Recorder sender(world_->make(DeviceId(7)));
  sender.wire->connect(DeviceId(1), world_->host_of(DeviceId(1)), end(1).wire->address());
  const auto payload = pattern(100 * 1024, 6);
  constexpr Token kCount = 5;
  for (Token token = 0; token < kCount; ++token) sender.wire->send(DeviceId(1), {}, payload, token);
  std::size_t taken = 0;
  const auto both_until = [&](const std::function<bool()>& done) {
    return until([&] {
      sender.wire->progress();
      for (; !end(1).arrived.empty(); end(1).arrived.pop_front(), ++taken)
        end(1).wire->release(end(1).arrived.front().id);
      return done();
    });
  };
  for (int i = 0; i < 50; ++i) both_until([] { return true; });
  end(1).wire->connect(DeviceId(7), world_->host_of(DeviceId(7)), sender.wire->address());
  ASSERT_TRUE(both_until([&] { return taken == kCount && sender.sends.size() == kCount; }));
  for (Token token = 0; token < kCount; ++token) EXPECT_TRUE(sender.sends[token].front().ok());
}

TEST_P(WireContract, AReleasedMessageEndsItsSend) {
  const auto large = pattern(kLarge, 5);
  bool first = true;
  end(1).at_once = [&](const Recorder::Kept& message) {  // releases the first at once and the
                                                         // second later
    if (std::exchange(first, false)) end(1).wire->release(message.id);
    else end(1).arrived.push_back(message);
  };
  end(0).wire->send(DeviceId(1), {}, large, 1);
  end(0).wire->send(DeviceId(1), {}, large, 2);
  ASSERT_TRUE(until([&] { return !end(1).arrived.empty(); }));
  end(1).wire->release(end(1).arrived.front().id);
  ASSERT_TRUE(until([&] { return end(0).sends.size() == 2; }));
  EXPECT_TRUE(end(0).sends[1].front().ok() && end(0).sends[2].front().ok());
}

TEST_P(WireContract, AnUnwillingReceiverBuffersABoundedNumberOfBytes) {
  constexpr std::size_t kMessage = 4096, kCount = 2000;
  const auto payload = pattern(kMessage, 6);
  for (Token token = 0; token < kCount; ++token) end(0).wire->send(DeviceId(1), {}, payload, token);
  ASSERT_TRUE(until([&] { return end(1).arrived.size() == kCount; }));
  settle();
  EXPECT_LE(end(0).sends.size() * kMessage, Wire::kEagerBudget);
  EXPECT_GT(end(0).sends.size(), 0u) << "small messages need not wait for the receiver";
  std::vector<std::vector<std::byte>> buffers(kCount, std::vector<std::byte>(kMessage));
  for (std::size_t i = 0; i < kCount; ++i)
    end(1).wire->receive(end(1).arrived[i].id, buffers[i], i);
  ASSERT_TRUE(
      until([&] { return end(0).sends.size() == kCount && end(1).receives.size() == kCount; }));
  for (const auto& buffer : buffers) ASSERT_EQ(buffer, payload);
  // The eager budget is available again.
  end(1).arrived.clear();
  end(0).sends.clear();
  for (Token token = 0; token < 10; ++token) end(0).wire->send(DeviceId(1), {}, payload, token);
  EXPECT_TRUE(until([&] { return end(0).sends.size() == 10; }));
}

TEST_P(WireContract, UnreceivedMessagesDoNotDelayLaterOnes) {
  constexpr std::size_t kMessage = 32 * 1024;
  constexpr Token kKept = 8, kWanted = 24;
  const auto payload = pattern(kMessage, 9);
  for (Token token = 0; token < kKept; ++token) end(0).wire->send(DeviceId(1), {}, payload, token);
  ASSERT_TRUE(until([&] { return end(1).arrived.size() == kKept; }));
  std::vector<std::byte> buffer(kMessage);
  // Send one after the other, as a sender with a window of one does.
  for (Token token = kKept; token < kWanted; ++token) {
    end(0).wire->send(DeviceId(1), {}, payload, token);
    ASSERT_TRUE(until([&] { return end(1).arrived.size() > kKept; }));
    end(1).wire->receive(end(1).arrived.back().id, buffer, token);
    end(1).arrived.pop_back();
    ASSERT_TRUE(until([&] {
      return end(0).sends.contains(token) && end(1).receives.contains(token);
    })) << token;
    EXPECT_EQ(buffer, payload);
  }
  for (const Recorder::Kept& message : end(1).arrived) end(1).wire->release(message.id);
  EXPECT_TRUE(until([&] { return end(0).sends.size() == kWanted; }));
}

TEST_P(WireContract, EverythingUnderLoadEndsExactlyOnceWithTheRightBytes) {
  std::mt19937_64 random(11);
  constexpr Token kCount = 400;
  std::vector<std::vector<std::byte>> payloads;
  for (Token token = 0; token < kCount; ++token) {
    const std::size_t size = std::array<std::size_t, 5>{0, 1, 700, 90000, 200000}[random() % 5];
    payloads.push_back(pattern(size, token));
  }
  std::map<Token, std::vector<std::byte>> got[2];
  for (std::size_t i = 0; i < 2; ++i) {
    end(i).at_once = [&, i](const Recorder::Kept& message) {
      Token token = 0;
      std::memcpy(&token, message.header.data(), sizeof(token));
      ASSERT_FALSE(got[i].contains(token));
      got[i][token].resize(message.bytes);
      if (random() % 3 == 0) end(i).arrived.push_back(message);  // received later
      else end(i).wire->receive(message.id, got[i][token], token);
    };
  }
  for (Token token = 0; token < kCount; ++token) {
    for (std::size_t i = 0; i < 2; ++i) {
      end(i).wire->send(DeviceId(1 - i), std::as_bytes(std::span(&token, 1)), payloads[token],
                        token);
    }
    if (token % 8 == 0) end(token % 2).wire->progress();
  }
  const auto take_later = [&] {
    for (std::size_t i = 0; i < 2; ++i) {
      while (!end(i).arrived.empty()) {
        Token token = 0;
        std::memcpy(&token, end(i).arrived.back().header.data(), sizeof(token));
        end(i).wire->receive(end(i).arrived.back().id, got[i][token], token);
        end(i).arrived.pop_back();
      }
    }
  };
  ASSERT_TRUE(until([&] {
    take_later();
    return end(0).sends.size() == kCount && end(1).sends.size() == kCount &&
           end(0).receives.size() == kCount && end(1).receives.size() == kCount;
  }));
  settle();
  for (std::size_t i = 0; i < 2; ++i) {
    for (Token token = 0; token < kCount; ++token) {
      ASSERT_EQ(end(i).sends[token].size(), 1u);
      ASSERT_EQ(end(i).receives[token].size(), 1u);
      ASSERT_TRUE(end(i).sends[token].front().ok() && end(i).receives[token].front().ok());
      ASSERT_EQ(got[i][token], payloads[token]) << "token " << token;
    }
  }
}

TEST_P(WireContract, ASendToADeviceThatIsNotConnectedFails) {
  end(0).wire->send(DeviceId(5), {}, {}, 3);
  ASSERT_TRUE(until([&] { return end(0).sends.contains(3); }));
  EXPECT_EQ(end(0).sends[3].front().error().code(), ErrorCode::kUnavailable);
  EXPECT_FALSE(end(0).wire->is_connected(DeviceId(5)));
  EXPECT_TRUE(end(0).wire->is_connected(DeviceId(1)));
}

TEST_P(WireContract, ADamagedOrForeignAddressIsRefused) {
  auto address = end(1).wire->address();
  EXPECT_THAT([&] { end(0).wire->connect(DeviceId(4), HostId(0), address); },
              test::throws_error(ErrorCode::kInvalidArgument, "address given for device 4"))
      << "the address of another device";
  address.resize(address.size() / 2);
  EXPECT_THAT([&] { end(0).wire->connect(DeviceId(4), HostId(0), address); },
              test::throws_error(ErrorCode::kInvalidArgument, "address given for device 4"));
  EXPECT_THAT([&] { end(0).wire->connect(DeviceId(4), HostId(0), {}); },
              test::throws_error(ErrorCode::kInvalidArgument, "address given for device 4"));
}

TEST_P(WireContract, DropCancelsSendsAndThePeerSeesALossAndBothMayConnectAgain) {
  const auto large = pattern(kLarge, 8);
  for (Token token = 0; token < 4; ++token) end(0).wire->send(DeviceId(1), {}, large, token);
  ASSERT_TRUE(until([&] { return end(1).arrived.size() == 4; }));
  end(0).wire->drop(DeviceId(1));
  EXPECT_FALSE(end(0).wire->is_connected(DeviceId(1)));
  ASSERT_TRUE(until([&] { return end(0).sends.size() == 4 && end(1).lost.contains(DeviceId(0)); }));
  for (Token token = 0; token < 4; ++token)
    EXPECT_EQ(end(0).sends[token].front().error().code(), ErrorCode::kCancelled);
  std::vector<std::byte> buffer(kLarge);
  end(1).wire->receive(end(1).arrived.front().id, buffer, 1);
  ASSERT_TRUE(until([&] { return end(1).receives.contains(1); }));
  EXPECT_FALSE(end(1).receives[1].front().ok()) << "its sender has gone away";
  settle();
  EXPECT_TRUE(end(0).lost.empty()) << "a drop is no loss to who dropped";
  EXPECT_EQ(end(1).lost[DeviceId(0)].size(), 1u);
  EXPECT_FALSE(end(1).wire->is_connected(DeviceId(0)));

  join(0, 1);
  join(1, 0);
  end(1).arrived.clear();
  end(0).sends.clear();
  end(0).wire->send(DeviceId(1), {}, large, 9);
  ASSERT_TRUE(until([&] { return !end(1).arrived.empty(); }));
  end(1).wire->receive(end(1).arrived.front().id, buffer, 2);
  ASSERT_TRUE(until([&] { return end(1).receives.contains(2) && end(0).sends.contains(9); }));
  EXPECT_TRUE(end(0).sends[9].front().ok());
  EXPECT_EQ(buffer, large);
}

TEST_P(WireContract, APeerMayBeDroppedHoweverFarConnectingHasCome) {
  const auto payload = pattern(100, 1);
  for (int steps = 0; steps < 12; ++steps) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      ends_.push_back(std::make_unique<Recorder>(
          world_->make(DeviceId(2 + 2 * static_cast<std::uint32_t>(steps) + i))));
    }
    Recorder &left = *ends_[ends_.size() - 2], &right = *ends_.back();
    const auto join_both = [&] {
      left.wire->connect(right.wire->self(), world_->host_of(right.wire->self()),
                         right.wire->address());
      right.wire->connect(left.wire->self(), world_->host_of(left.wire->self()),
                          left.wire->address());
    };
    join_both();
    for (int i = 0; i < steps; ++i) {
      (i % 2 == 0 ? left : right).wire->progress();
      left.wire->wait(std::chrono::microseconds(200));
    }
    right.wire->drop(left.wire->self());
    ASSERT_TRUE(until([&] { return left.lost.contains(right.wire->self()); }))
        << "after " << steps << " steps";
    join_both();
    left.wire->send(right.wire->self(), {}, payload, 1);
    ASSERT_TRUE(until([&] { return !right.arrived.empty(); })) << "after " << steps << " steps";
    EXPECT_EQ(right.arrived.front().payload, payload);
  }
}

TEST_P(WireContract, AReceiveUnderWayEndsWhenItsPeerIsDropped) {
  const auto large = pattern(64 << 20, 9);
  end(0).wire->send(DeviceId(1), {}, large, 1);
  ASSERT_TRUE(until([&] { return !end(1).arrived.empty(); }));
  std::vector<std::byte> buffer(large.size());
  end(1).wire->receive(end(1).arrived.front().id, buffer, 1);
  for (int i = 0; i < 3; ++i) {
    end(0).wire->progress();
    end(1).wire->progress();
  }
  end(1).wire->drop(DeviceId(0));
  ASSERT_TRUE(until([&] {
    return end(1).receives.contains(1) && end(0).sends.contains(1) &&
           end(0).lost.contains(DeviceId(1));
  }));
  const auto at_the_end = buffer;
  settle();
  EXPECT_EQ(buffer, at_the_end) << "the buffer was touched after its receive had ended";
}

TEST_P(WireContract, TheLossOfAPeerIsReportedOnceAndEndsItsTransfers) {
  const auto large = pattern(kLarge, 10);
  for (Token token = 0; token < 3; ++token) end(0).wire->send(DeviceId(1), {}, large, token);
  ASSERT_TRUE(until([&] { return end(1).arrived.size() == 3; }));
  ends_[1].reset();
  ASSERT_TRUE(until([&] { return end(0).sends.size() == 3 && end(0).lost.contains(DeviceId(1)); }));
  for (Token token = 0; token < 3; ++token) {
    ASSERT_EQ(end(0).sends[token].size(), 1u);
    EXPECT_FALSE(end(0).sends[token].front().ok());
  }
  EXPECT_EQ(end(0).lost[DeviceId(1)].size(), 1u);
  EXPECT_EQ(end(0).lost[DeviceId(1)].front().code(), ErrorCode::kPeerDied);
  EXPECT_FALSE(end(0).wire->is_connected(DeviceId(1)));
  end(0).wire->send(DeviceId(1), {}, large, 8);
  ASSERT_TRUE(until([&] { return end(0).sends.contains(8); }));
  EXPECT_EQ(end(0).sends[8].front().error().code(), ErrorCode::kUnavailable);
}

TEST_P(WireContract, WaitEndsOnAMessageAndOnWakeFromAnotherThread) {
  settle();
  std::atomic<int> stage = 0;
  std::thread sleeper([&] {  // owns end 1 meanwhile
    const auto limit = std::chrono::steady_clock::now() + test::kPatience;
    while (end(1).arrived.empty() && std::chrono::steady_clock::now() < limit) {
      if (end(1).wire->progress() == 0) end(1).wire->wait(std::chrono::hours(1));
    }
    stage = 1;
    while (stage != 2) end(1).wire->wait(std::chrono::hours(1));
  });
  end(0).wire->send(DeviceId(1), {}, {}, 1);
  while (stage == 0) {
    end(0).wire->progress();
    end(0).wire->wait(std::chrono::milliseconds(1));
  }
  stage = 2;
  end(1).wire->wake();
  sleeper.join();
  EXPECT_EQ(end(1).arrived.size(), 1u);
  end(1).wire->release(end(1).arrived.front().id);
}

INSTANTIATE_TEST_SUITE_P(Kinds, WireContract, ::testing::ValuesIn(test::wire_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace weft::transfer
