#include "actors/message/message.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "actors/message/message_frames.h"
#include "actors/net/frame.h"
#include "tests/fuzz/allocation_limit.h"
#include "tests/fuzz/mutator.h"

namespace weft::actors {
namespace {

std::vector<std::byte> bytes_of(const std::function<void(const ByteSink&)>& encode_message) {
  std::vector<std::byte> bytes;
  encode_message([&](const MessageBytes& message) { bytes = message.joined(); });
  return bytes;
}

/// Decodes `rounds` damaged copies of `sound`. Each is refused as kDataLoss or yields a message.
template <typename Decode>
void survives_damage(const std::vector<std::byte>& sound, Decode decode_message,
                     int rounds = 4'000) {
  test::Mutator mutator(2);
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const auto damaged = mutator.damage(sound);
    // Cap'n Proto reads words in place. With a vector of the exact size, the address sanitizer sees
    // reads out of bounds.
    std::vector<std::uint64_t> words((damaged.size() + 7) / 8);
    std::ranges::copy(damaged, reinterpret_cast<std::byte*>(words.data()));
    const test::AllocationLimit limit(256 * damaged.size() + 65536);
    try {
      decode_message(std::span(reinterpret_cast<const std::byte*>(words.data()), damaged.size()));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 10);
  EXPECT_LT(refused, rounds);
}

PeerDescription introduction() {
  PeerDescription it;
  it.process = {ProcessId(17), "worker0", {"127.0.0.1", 4711}};
  it.pid = 99;
  it.binary_name = "gpt";
  it.binary_hash = std::string(64, 'a');
  it.run = 0x1234;
  return it;
}

TEST(MessageFuzz, DamagedHelloAndChallengeAreRefusedOrHarmless) {
  survives_damage(bytes_of([](const ByteSink& sink) { encode_hello(introduction(), sink); }),
                  decode_hello);
  survives_damage(bytes_of([](const ByteSink& sink) { encode_challenge(introduction(), sink); }),
                  decode_challenge);
}

TEST(MessageFuzz, DamagedRejectIsRefusedOrHarmless) {
  const Reject reject{ErrorCode::kIncompatible, "protocol 2.0", "install the same Weft", true, {}};
  survives_damage(bytes_of([&](const ByteSink& sink) { encode_reject(reject, sink); }),
                  decode_reject);
}

TEST(MessageFuzz, DamagedCallsAndRepliesAreRefusedOrHarmless) {
  const Call call{
      5, ActorId(3), 0xabcd, 2, false, 1'000'000, std::vector<std::byte>(100, std::byte{7})};
  survives_damage(bytes_of([&](const ByteSink& sink) { encode_call(call, sink); }), decode_call);
  Call numbered = call;
  numbered.order = {3, 17, CallOrder::Kind::kSkip};
  survives_damage(bytes_of([&](const ByteSink& sink) { encode_call(numbered, sink); }),
                  decode_call);
  const Reply value{5, std::vector<std::byte>(40, std::byte{1})};
  survives_damage(bytes_of([&](const ByteSink& sink) { encode_reply(value, sink); }), decode_reply);
  const Reply error{5, Error(ErrorCode::kInternal, "what happened").from("worker0", "front[0,1]")};
  survives_damage(bytes_of([&](const ByteSink& sink) { encode_reply(error, sink); }), decode_reply);
}

TEST(MessageFuzz, DamagedValuesAndPullsAreRefusedOrHarmless) {
  const Values values{
      5, {std::vector<std::byte>(40, std::byte{1}), {}, std::vector<std::byte>(9, std::byte{2})}};
  survives_damage(bytes_of([&](const ByteSink& sink) { encode_values(values, sink); }),
                  decode_values);
  const Pull pull{5, ActorId(3), 20, 4000};
  survives_damage(bytes_of([&](const ByteSink& sink) { encode_pull(pull, sink); }), decode_pull);
}

TEST(MessageFuzz, DamagedSmallMessagesAreRefusedOrHarmless) {
  const Credit credit{ActorId(3), 10, 1000, 1024, 1 << 20};
  survives_damage(bytes_of([&](const ByteSink& sink) { encode_credit(credit, sink); }),
                  decode_credit);
  survives_damage(bytes_of([](const ByteSink& sink) { encode_cancel(7, sink); }), decode_cancel);
  survives_damage(bytes_of([](const ByteSink& sink) {
                    encode_goodbye({"shut down", true}, sink);
                  }),
                  decode_goodbye);
}

TEST(FrameFuzz, ADamagedHeaderIsRefusedUnlessItIsUnchanged) {
  test::Mutator mutator(3);
  FrameHeader header;
  header.major = kProtocolMajor;
  header.minor = kProtocolMinor;
  header.kind = 4;
  header.length = 1000;
  header.sequence = 12;
  const auto sound = pack(header);
  for (int round = 0; round < 50'000; ++round) {
    SCOPED_TRACE(round);
    auto damaged = mutator.damage(sound);
    damaged.resize(kFrameHeaderBytes);
    const bool same = std::equal(sound.begin(), sound.end(), damaged.begin());
    try {
      unpack(std::span<const std::byte, kFrameHeaderBytes>(damaged.data(), kFrameHeaderBytes), 12,
             kMaxFrameBody);
      ASSERT_TRUE(same);
    } catch (const Error& error) {
      ASSERT_FALSE(same) << error.what();
      ASSERT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
    }
  }
}

TEST(FrameFuzz, FramesInAnyOrderMakeNoMessageAboveTheLimit) {
  const std::vector<std::byte> whole(kMaxFrameBody, std::byte{1});
  test::Mutator mutator(4);
  for (int stream = 0; stream < 20; ++stream) {
    MessageAssembler assembler;
    try {
      for (int frame = 0; frame < 100; ++frame) {
        FrameHeader header;
        header.kind = mutator.below(8) == 0 ? 5 : 4;
        header.flags = mutator.below(4) == 0 ? 0 : 1;
        const std::size_t length =
            mutator.below(16) == 0 ? mutator.below(kMaxFrameBody) : kMaxFrameBody;
        const auto message = assembler.add(header, std::span(whole).first(length));
        if (message) {
          ASSERT_LE(message->bytes.size(), kMaxMessageBytes + 4096);
        }
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft::actors
