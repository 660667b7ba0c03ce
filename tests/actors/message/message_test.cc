#include "actors/message/message.h"

#include <gtest/gtest.h>

#include <cstring>

#include "actors/message/message_frames.h"
#include "core/base/philox.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

/// Bytes that start at a multiple of 8, as connections deliver them.
class Aligned final {
 public:
  explicit Aligned(std::span<const std::byte> bytes)
      : words_((bytes.size() + 7) / 8), size_(bytes.size()) {
    if (size_ != 0) std::memcpy(words_.data(), bytes.data(), size_);
  }
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(words_.data()), size_};
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_;
};

template <typename Encode>
std::vector<std::byte> collect(Encode encode) {
  std::vector<std::byte> bytes;
  encode([&](const MessageBytes& message) { bytes = message.joined(); });
  return bytes;
}

std::vector<std::byte> payload(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

PeerDescription introduction() {
  return {{ProcessId(77), "worker0", {"10.0.0.1", 7077}}, 4121, "gpt", std::string(64, 'a'), 123};
}

Call call_of(std::size_t bytes) {
  return {9, ActorId(3), 0xfeedface, 2, true, 5'000'000, payload(bytes)};
}

TEST(Message, EveryKindComesBackEqual) {
  EXPECT_EQ(decode_hello(Aligned(collect([](const ByteSink& sink) {
                           encode_hello(introduction(), sink);
                         })).bytes()),
            introduction());
  EXPECT_EQ(decode_challenge(Aligned(collect([](const ByteSink& sink) {
                               encode_challenge(introduction(), sink);
                             })).bytes()),
            introduction());
  const Reject reject{ErrorCode::kIncompatible, "text", "hint", true, ProcessId(5)};
  EXPECT_EQ(decode_reject(Aligned(collect([&](const ByteSink& sink) {
                            encode_reject(reject, sink);
                          })).bytes()),
            reject);
  for (const std::size_t size : {0u, 1u, 64u, 1000u, 100000u}) {
    EXPECT_EQ(decode_call(Aligned(collect([&](const ByteSink& sink) {
                            encode_call(call_of(size), sink);
                          })).bytes()),
              call_of(size));
    Call numbered = call_of(size);
    numbered.order = {7, 12, CallOrder::Kind::kResent};
    EXPECT_EQ(decode_call(Aligned(collect([&](const ByteSink& sink) {
                            encode_call(numbered, sink);
                          })).bytes()),
              numbered);
    const Reply reply{5, payload(size)};
    EXPECT_EQ(decode_reply(Aligned(collect([&](const ByteSink& sink) {
                             encode_reply(reply, sink);
                           })).bytes()),
              reply);
  }
  const Reply failed{6, Error(ErrorCode::kPeerDied, "gone").at("here").from("node", "actor"),
                     ReplyState::kInterrupted};
  EXPECT_EQ(decode_reply(Aligned(collect([&](const ByteSink& sink) {
                           encode_reply(failed, sink);
                         })).bytes()),
            failed);
  const Credit credit{ActorId(4), 10, 1000, 64, 1 << 20};
  EXPECT_EQ(decode_credit(Aligned(collect([&](const ByteSink& sink) {
                            encode_credit(credit, sink);
                          })).bytes()),
            credit);
  EXPECT_EQ(decode_cancel(
                Aligned(collect([](const ByteSink& sink) { encode_cancel(12, sink); })).bytes()),
            12u);
  EXPECT_EQ(decode_goodbye(Aligned(collect([](const ByteSink& sink) {
                             encode_goodbye({"done", true}, sink);
                           })).bytes()),
            (Goodbye{"done", true}));
}

TEST(Message, ValuesAndPullsOfGeneratorsComeBackEqual) {
  for (const std::size_t count : {0u, 1u, 16u, 1000u}) {
    Values values{7, {}};
    for (std::size_t i = 0; i < count; ++i) values.values.push_back(payload(i * 13 % 200));
    EXPECT_EQ(decode_values(Aligned(collect([&](const ByteSink& sink) {
                              encode_values(values, sink);
                            })).bytes()),
              values);
  }
  const Pull pull{7, ActorId(3), 20, 4000};
  EXPECT_EQ(
      decode_pull(Aligned(collect([&](const ByteSink& sink) { encode_pull(pull, sink); })).bytes()),
      pull);
}

TEST(Message, DamagedBytesGiveAMessageOrAnErrorAndNothingElse) {
  constexpr std::uint64_t kSeed = 99;
  SCOPED_TRACE(kSeed);
  PhiloxStream random(kSeed);
  const std::vector<std::vector<std::byte>> good{
      collect([](const ByteSink& sink) { encode_hello(introduction(), sink); }),
      collect([](const ByteSink& sink) { encode_call(call_of(40), sink); }),
      collect([](const ByteSink& sink) {
        encode_values({7, {payload(9), payload(40)}}, sink);
      }),
      collect([](const ByteSink& sink) {
        encode_reply({6, Error(ErrorCode::kPeerDied, "gone").at("here").from("node", "actor")},
                     sink);
      }),
  };
  const std::vector<void (*)(std::span<const std::byte>)> decoders{
      [](std::span<const std::byte> bytes) { (void)decode_hello(bytes); },
      [](std::span<const std::byte> bytes) { (void)decode_call(bytes); },
      [](std::span<const std::byte> bytes) { (void)decode_reply(bytes); },
      [](std::span<const std::byte> bytes) { (void)decode_credit(bytes); },
      [](std::span<const std::byte> bytes) { (void)decode_values(bytes); },
      [](std::span<const std::byte> bytes) { (void)decode_pull(bytes); },
      [](std::span<const std::byte> bytes) { (void)decode_reject(bytes); },
      [](std::span<const std::byte> bytes) { (void)decode_goodbye(bytes); }};
  int errors = 0;
  for (int round = 0; round < 30000; ++round) {
    auto bytes = good[random.below(good.size())];
    for (std::uint64_t i = random.below(5); i > 0; --i)
      bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 << random.below(8));
    if (random.below(5) == 0) bytes.resize(random.below(bytes.size() + 1));
    try {
      decoders[random.below(decoders.size())](Aligned(bytes).bytes());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      ++errors;
    }
  }
  EXPECT_GT(errors, 1000);
}

FrameHeader frame(MessageKind kind, std::size_t length, bool more) {
  FrameHeader header;
  header.kind = static_cast<std::uint8_t>(kind);
  header.flags = more ? 1 : 0;
  header.length = length;
  return header;
}

TEST(MessageAssembler, PutsTheFramesOfOneMessageTogether) {
  MessageAssembler assembler;
  const auto part = payload(kMaxFrameBody);
  EXPECT_FALSE(assembler.add(frame(MessageKind::kCall, part.size(), true), part));
  EXPECT_FALSE(assembler.add(frame(MessageKind::kCall, part.size(), true), part));
  const auto last = payload(24);
  const auto message = assembler.add(frame(MessageKind::kCall, last.size(), false), last);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->bytes.size(), 2 * part.size() + last.size());
  EXPECT_EQ(message->bytes[part.size() + 5], part[5]);
  const auto single = assembler.add(frame(MessageKind::kReply, last.size(), false), last);
  ASSERT_TRUE(single);
  EXPECT_EQ(single->kind, MessageKind::kReply);
}

TEST(MessageAssembler, RefusesOtherFramesInBetweenShortPartsAndTooMuch) {
  const auto part = payload(kMaxFrameBody);
  {
    MessageAssembler assembler;
    (void)assembler.add(frame(MessageKind::kCall, part.size(), true), part);
    EXPECT_THAT([&] { (void)assembler.add(frame(MessageKind::kReply, 8, false), payload(8)); },
                test::throws_error(ErrorCode::kDataLoss, "a reply frame inside a call message"));
  }
  {
    MessageAssembler assembler;
    EXPECT_THAT([&] { (void)assembler.add(frame(MessageKind::kCall, 8, true), payload(8)); },
                test::throws_error(ErrorCode::kDataLoss, "has 8 bytes instead of"));
  }
  MessageAssembler assembler;
  for (std::size_t i = 0; i < kMaxMessageBytes / kMaxFrameBody; ++i)
    (void)assembler.add(frame(MessageKind::kCall, part.size(), true), part);
  EXPECT_THAT([&] { (void)assembler.add(frame(MessageKind::kCall, part.size(), true), part); },
              test::throws_error(ErrorCode::kDataLoss, "a message is longer than"));
}

}  // namespace
}  // namespace weft::actors
