#include "transfer/execute/internal/early_messages.h"

#include <gmock/gmock.h>

namespace weft::transfer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr TransferId kFirst{1, 2, 3, 4};
constexpr TransferId kSecond{1, 2, 3, 5};

Message message(std::uint64_t id, std::uint32_t sender) {
  return {MessageId(id), DeviceId(sender), {}, 4, {}};
}
ChunkHeader chunk_of(const TransferId& id) {
  return ChunkHeader::of(ChunkHeader::kChunk, id, 0, 0);
}

TEST(EarlyMessages, ATransferTakesItsOwnMessagesInTheOrderOfTheirArrival) {
  EarlyMessages early;
  ASSERT_TRUE(early.keep(message(7, 1), chunk_of(kFirst)));
  ASSERT_TRUE(early.keep(message(8, 2), chunk_of(kSecond)));
  ASSERT_TRUE(early.keep(message(9, 2), chunk_of(kFirst)));
  EXPECT_THAT(early.senders_of(kFirst), ElementsAre(DeviceId(1), DeviceId(2)));
  const auto taken = early.take(kFirst);
  ASSERT_EQ(taken.size(), 2);
  EXPECT_EQ(taken[0].message, MessageId(7));
  EXPECT_EQ(taken[1].message, MessageId(9));
  EXPECT_THAT(early.take(kFirst), IsEmpty());
  EXPECT_THAT(early.transfers(), ElementsAre(kSecond));
}

TEST(EarlyMessages, OneSenderIsLimitedAndTakenMessagesCountNoMore) {
  EarlyMessages early;
  for (std::size_t i = 0; i < EarlyMessages::kMaxPerSender; ++i)
    ASSERT_TRUE(early.keep(message(i, 1), chunk_of(i == 0 ? kFirst : kSecond)));
  EXPECT_TRUE(early.keep(message(1, 2), chunk_of(kFirst))) << "another sender has its own limit";
  EXPECT_THAT(early.take_over_limit(), IsEmpty());
  EXPECT_FALSE(early.keep(message(2, 1), chunk_of(kFirst)));
  EXPECT_THAT(early.take_over_limit(), ElementsAre(DeviceId(1)));
  EXPECT_THAT(early.take_over_limit(), IsEmpty()) << "each sender is named once";
  early.take(kFirst);
  EXPECT_TRUE(early.keep(message(3, 1), chunk_of(kFirst)));
}

TEST(EarlyMessages, AnAnnouncementIsTakenOnce) {
  EarlyMessages early;
  early.announce(kFirst);
  EXPECT_FALSE(early.take_announcement(kSecond));
  EXPECT_TRUE(early.take_announcement(kFirst));
  EXPECT_FALSE(early.take_announcement(kFirst));
}

}  // namespace
}  // namespace weft::transfer
