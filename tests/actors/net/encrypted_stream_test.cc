#include "actors/net/encrypted_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/scripted_stream.h"

namespace weft::actors {
namespace {

using test::Bytes;
using test::ScriptedStream;

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes pattern(std::size_t size, std::size_t seed = 0) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed + i / 251);
  return bytes;
}

const Aead::Cipher kCipher = Aead::choose(Aead::has_aes(), Aead::has_aes());
const StreamKeys kOneSide = {kCipher, {std::byte{1}}, {std::byte{2}}};
const StreamKeys kOtherSide = {kCipher, {std::byte{2}}, {std::byte{1}}};

/// Sealed stream over a scripted socket, with the bytes read from it until the first error.
class End final {
 public:
  explicit End(const StreamKeys& keys, std::size_t buffer = 64 << 10, const Bytes& arrived = {},
               std::uint64_t seals_per_key = kRecordsPerRekey)
      : buffer_(buffer) {
    auto socket = std::make_unique<ScriptedStream>();
    socket_ = socket.get();
    stream_ = seal(std::move(socket), keys, arrived, seals_per_key);
  }
  End(const End&) = delete;
  void begin() { read(); }
  /// Writes all of `bytes`, in as many calls as needed. Returns the encrypted bytes.
  Bytes write(const Bytes& bytes, std::size_t room = std::size_t(-1)) {
    std::size_t taken = 0;
    for (int tries = 0; taken < bytes.size() && tries < 10'000'000; ++tries) {
      socket_->room = room;
      taken += stream_->write_some(std::span(bytes).subspan(taken)).value();
    }
    EXPECT_EQ(taken, bytes.size());
    return std::exchange(socket_->said, {});
  }
  ScriptedStream& socket() { return *socket_; }

  Bytes heard;
  std::optional<Error> error;

 private:
  void read() {
    stream_->read_some(buffer_, [this](std::size_t count, const std::optional<Error>& failure) {
      error = failure;
      if (failure) return;
      heard.insert(heard.end(), buffer_.begin(),
                   buffer_.begin() + static_cast<std::ptrdiff_t>(count));
      read();
    });
  }

  Bytes buffer_;
  ScriptedStream* socket_ = nullptr;
  std::unique_ptr<ByteStream> stream_;
};

/// Expects that a stream that receives `records` delivers `before` and then fails with kDataLoss.
void expect_damage(const StreamKeys& keys, const std::vector<Bytes>& records, const Bytes& before,
                   const Bytes& arrived = {}) {
  End end(keys, 64 << 10, arrived);
  end.begin();
  for (const Bytes& record : records) end.socket().bring(record);
  EXPECT_EQ(end.heard, before);
  ASSERT_TRUE(end.error);
  EXPECT_EQ(end.error->code(), ErrorCode::kDataLoss);
  EXPECT_NE(end.error->message().find("received data failed authentication"), std::string::npos);
}

TEST(EncryptedStream, BytesOfAllSizesArriveWhole) {
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{7}, std::size_t{5000}, std::size_t(-1)})
    for (const std::size_t buffer : {std::size_t{500}, std::size_t{1000}, std::size_t{64} << 10}) {
      SCOPED_TRACE(std::to_string(piece) + " " + std::to_string(buffer));
      End one(kOneSide), other(kOtherSide, buffer);
      other.socket().piece = piece;
      other.begin();
      Bytes said;
      for (const std::size_t size : {1u, 2u, 24u, 160u, 4096u, 4097u, 65535u, 65536u, 65537u}) {
        const Bytes part = pattern(size, size);
        said.insert(said.end(), part.begin(), part.end());
        other.socket().bring(one.write(part));
      }
      EXPECT_FALSE(other.error);
      EXPECT_TRUE(other.heard == said);
    }
}

TEST(EncryptedStream, BytesBeyondAPartialWriteAreSentLaterAndOnce) {
  End one(kOneSide), other(kOtherSide);
  other.begin();
  const Bytes said = pattern(200'000);
  other.socket().bring(one.write(said, 999));
  EXPECT_TRUE(other.heard == said);
}

TEST(EncryptedStream, AWriteIsOneRecordThatShowsNothing) {
  End one(kOneSide);
  const std::string secret = "the next token";
  const Bytes first = one.write(bytes_of(secret)), second = one.write(bytes_of(secret));
  const Bytes token = bytes_of("token");
  EXPECT_EQ(first.size(), secret.size() + 20);
  EXPECT_NE(first, second);
  for (const Bytes& record : {first, second})
    EXPECT_EQ(std::search(record.begin(), record.end(), token.begin(), token.end()), record.end());
  End larger(kOneSide);
  EXPECT_EQ(larger.write(pattern(kMaxPlaintextRecord)).size(), kMaxPlaintextRecord + 20);
  EXPECT_EQ(larger.write(pattern(kMaxPlaintextRecord + 1)).size(), kMaxPlaintextRecord + 1 + 40);
}

TEST(EncryptedStream, EveryFlippedBitClosesTheStream) {
  End one(kOneSide);
  const Bytes first = one.write(pattern(24)), second = one.write(pattern(24, 1));
  const Bytes third = one.write(pattern(70'000));
  for (std::size_t bit = 0; bit < second.size() * 8; ++bit) {
    SCOPED_TRACE(bit);
    Bytes changed = second;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    // a longer length waits for more bytes; `third` has them
    expect_damage(kOtherSide, {first, changed, third}, pattern(24));
  }
}

TEST(EncryptedStream, ARepeatedMissingReorderedOrForeignRecordClosesTheStream) {
  End one(kOneSide);
  const Bytes first = one.write(pattern(24)), second = one.write(pattern(40)),
              third = one.write(pattern(56));
  const Bytes plain = pattern(64);
  expect_damage(kOtherSide, {first, first}, pattern(24));
  expect_damage(kOtherSide, {first, third}, pattern(24));
  expect_damage(kOtherSide, {second, first}, {});
  expect_damage(kOtherSide, {first, plain, second}, pattern(24));
  Bytes cut(second.begin(), second.end() - 1);
  expect_damage(kOtherSide, {first, cut, third}, pattern(24));
  // No record is read after an error.
  expect_damage(kOtherSide, {first, first, second, third}, pattern(24));
}

TEST(EncryptedStream, ARecordReflectedToItsSenderClosesTheStream) {
  End one(kOneSide);
  expect_damage(kOneSide, {one.write(pattern(24))}, {});
}

TEST(EncryptedStream, AProcessorWithoutAesSpeaksToOneThatHasIt) {
  StreamKeys one = kOneSide, other = kOtherSide;
  one.cipher = other.cipher = Aead::choose(true, false);
  End sender(one), receiver(other);
  receiver.begin();
  receiver.socket().bring(sender.write(pattern(70'000)));
  EXPECT_EQ(receiver.heard, pattern(70'000));
  if (kCipher != one.cipher) expect_damage(kOtherSide, {End(one).write(pattern(24))}, {});
}

TEST(EncryptedStream, WrongKeysCloseTheStream) {
  End one(kOneSide);
  StreamKeys others = kOtherSide;
  others.receives[31] = std::byte{1};
  expect_damage(others, {one.write(pattern(24))}, {});
}

TEST(EncryptedStream, ACutRecordIsNeverRead) {
  End one(kOneSide), other(kOtherSide);
  other.begin();
  Bytes record = one.write(pattern(100));
  record.pop_back();
  other.socket().bring(record);
  other.socket().end();
  EXPECT_TRUE(other.heard.empty());
  ASSERT_TRUE(other.error);
  EXPECT_EQ(other.error->code(), ErrorCode::kUnavailable) << "as of a process that has ended";
}

TEST(EncryptedStream, BytesReceivedWithThePlainGreetingAreReadFirst) {
  End one(kOneSide);
  const Bytes first = one.write(pattern(500)), second = one.write(pattern(300, 1));
  End other(kOtherSide, 64 << 10, Bytes(first.begin(), first.begin() + 100));
  other.begin();
  other.socket().bring(Bytes(first.begin() + 100, first.end()));
  other.socket().bring(second);
  Bytes said = pattern(500);
  const Bytes more = pattern(300, 1);
  said.insert(said.end(), more.begin(), more.end());
  EXPECT_EQ(other.heard, said);
  expect_damage(kOtherSide, {first}, {}, pattern(56));
}

TEST(EncryptedStream, ADirectionTakesItsNextKeyAfterSoManyRecords) {
  End one(kOneSide, 64, {}, 3), other(kOtherSide, 64, {}, 3), behind(kOtherSide, 64, {}, 4);
  other.begin();
  behind.begin();
  for (std::size_t i = 0; i < 20; ++i) {
    const Bytes record = one.write(pattern(8, i));
    other.socket().bring(record);
    behind.socket().bring(record);
  }
  EXPECT_FALSE(other.error);
  EXPECT_EQ(other.heard.size(), 160u);
  EXPECT_EQ(behind.heard.size(), 24u);
  EXPECT_TRUE(behind.error);
}

}  // namespace
}  // namespace weft::actors
