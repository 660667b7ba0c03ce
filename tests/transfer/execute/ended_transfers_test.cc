#include "transfer/execute/internal/ended_transfers.h"

#include <gtest/gtest.h>

namespace weft::transfer {
namespace {

TransferId transfer(std::uint32_t op) { return {1, 0, op, 0}; }

TEST(EndedTransfers, OnlyTheLast4096AreRemembered) {
  EndedTransfers ended;
  ended.remember_failure(transfer(0), Error(ErrorCode::kPeerDied, "it died"));
  for (std::uint32_t op = 1; op < 4096; ++op) ended.remember(transfer(op));
  EXPECT_TRUE(ended.contains(transfer(0)));
  ended.remember(transfer(4096));
  EXPECT_FALSE(ended.contains(transfer(0)));
  EXPECT_EQ(ended.take_failure(transfer(0)), std::nullopt);
  EXPECT_TRUE(ended.contains(transfer(1)));
}

TEST(EndedTransfers, AFailureElsewhereIsTakenOnceByTheStartHere) {
  EndedTransfers ended;
  ended.remember_failure(transfer(7), Error(ErrorCode::kPeerDied, "it died"));
  const auto failure = ended.take_failure(transfer(7));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->message(), "it died");
  EXPECT_EQ(ended.take_failure(transfer(7)), std::nullopt);
  EXPECT_TRUE(ended.contains(transfer(7))) << "late messages are still dropped";
  ended.forget(transfer(7));
  EXPECT_FALSE(ended.contains(transfer(7)));
}

}  // namespace
}  // namespace weft::transfer
