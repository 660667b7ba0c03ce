// Tests encrypted streams against an attacker who changes bytes in transit.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "actors/net/encrypted_stream.h"
#include "tests/fuzz/fuzz_time.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/scripted_stream.h"

namespace weft::actors {
namespace {

using test::Bytes;
using test::ScriptedStream;

const Aead::Cipher kCipher = Aead::choose(Aead::has_aes(), Aead::has_aes());
const StreamKeys kSender = {kCipher, {std::byte{1}}, {std::byte{2}}};
const StreamKeys kReceiver = {kCipher, {std::byte{2}}, {std::byte{1}}};

/// Returns the bytes that a stream reads from `bytes`, which arrive in pieces, and whether it
/// failed.
std::pair<Bytes, bool> read_all(const Bytes& bytes, test::Mutator& mutator) {
  auto made = std::make_unique<ScriptedStream>();
  ScriptedStream& socket = *made;
  socket.piece = 1 + mutator.below(5000);
  const std::size_t early = mutator.below(3) == 0 ? mutator.below(200) : 0;
  const Bytes first(bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(std::min(early, bytes.size())));
  const auto stream = seal(std::move(made), kReceiver, first);
  Bytes heard, buffer(500 + mutator.below(9000));
  bool failed = false;
  std::function<void()> read = [&] {
    stream->read_some(buffer, [&](std::size_t count, const std::optional<Error>& error) {
      failed = error.has_value();
      if (failed) return;
      heard.insert(heard.end(), buffer.begin(),
                   buffer.begin() + static_cast<std::ptrdiff_t>(count));
      read();
    });
  };
  read();
  socket.bring(Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(first.size()), bytes.end()));
  socket.end();
  return {heard, failed};
}

TEST(SealedFuzz, OnlyWhatWasSentIsReadAndInItsOrder) {
  test::FuzzTime time(400);
  test::Mutator mutator(19 + time.seed());
  int cut_short = 0;
  while (time.more()) {
    SCOPED_TRACE(time.round());
    auto made = std::make_unique<ScriptedStream>();
    ScriptedStream& socket = *made;
    const auto stream = seal(std::move(made), kSender, {});
    Bytes said;
    for (std::size_t i = 0, count = 1 + mutator.below(6); i < count; ++i) {
      Bytes part(1 + mutator.below(mutator.below(8) == 0 ? 70'000 : 300));
      for (std::byte& each : part) each = static_cast<std::byte>(mutator.below(256));
      ASSERT_EQ(stream->write_some(part), part.size());
      said.insert(said.end(), part.begin(), part.end());
    }
    const bool damages = mutator.below(8) != 0;
    const auto [heard, failed] =
        read_all(damages ? mutator.damage(socket.said) : socket.said, mutator);
    ASSERT_LE(heard.size(), said.size());
    ASSERT_TRUE(std::equal(heard.begin(), heard.end(), said.begin()));
    ASSERT_TRUE(failed) << "the end, at least";
    if (!damages) {
      ASSERT_EQ(heard.size(), said.size());
    }
    cut_short += heard.size() < said.size() ? 1 : 0;
  }
  EXPECT_GT(cut_short, 200);
}

}  // namespace
}  // namespace weft::actors
