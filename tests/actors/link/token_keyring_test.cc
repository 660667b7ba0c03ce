#include "actors/link/token_keyring.h"

#include <gtest/gtest.h>

namespace weft::actors {
namespace {

using std::chrono::seconds;

TEST(TokenKeyring, AFormerTokenIsTakenFromMembersUntilItsTimeIsOver) {
  const Secret first = Secret::random(), second = Secret::random(), third = Secret::random();
  const TimePoint start{};
  TokenKeyring ring(first);
  EXPECT_EQ(ring.usable(start).size(), 1u);
  EXPECT_TRUE(ring.admits(token_id(first), ProcessId(9), start));
  EXPECT_FALSE(ring.admits(token_id(second), ProcessId(9), start));

  ring.replace(second, 5, start, start + seconds(60), std::set{ProcessId(1)});
  EXPECT_EQ(ring.generation(), 5u);
  EXPECT_TRUE(ring.admits(token_id(second), ProcessId(9), start));
  EXPECT_TRUE(ring.admits(token_id(first), ProcessId(1), start + seconds(59)));
  EXPECT_FALSE(ring.admits(token_id(first), ProcessId(2), start));
  EXPECT_FALSE(ring.admits(token_id(first), ProcessId(1), start + seconds(60)));

  ring.replace(third, 6, start + seconds(30), start + seconds(90), std::nullopt);
  EXPECT_TRUE(ring.knows(first));
  EXPECT_EQ(ring.usable(start + seconds(30)).size(), 3u);
  EXPECT_TRUE(ring.admits(token_id(first), ProcessId(1), start + seconds(30)));
  EXPECT_TRUE(ring.admits(token_id(second), ProcessId(2), start + seconds(30)));
  EXPECT_EQ(token_id(ring.usable(start + seconds(30)).front()), token_id(third));
  EXPECT_EQ(ring.usable(start + seconds(95)).size(), 1u);
}

TEST(TokenKeyring, TheNameOfATokenIsItsOwnAndNeverNone) {
  const Secret one = Secret::random(), other = Secret::random();
  EXPECT_EQ(token_id(one), token_id(Secret(one.bytes())));
  EXPECT_NE(token_id(one), token_id(other));
  EXPECT_NE(token_id(Secret()), 0u);
}

}  // namespace
}  // namespace weft::actors
