#include "transfer/wire_ucx/internal/eager_flow_control.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace weft::transfer {
namespace {

constexpr std::size_t kMessage = 32 * 1024;

TEST(EagerFlowControl, AMessageIsFarAheadWhileMoreThanTheSlackBeforeItsEndIsOnItsWay) {
  EagerFlowControl ledger;
  EXPECT_FALSE(ledger.exceeds_window(ledger.send(kMessage)));
  EXPECT_FALSE(ledger.exceeds_window(ledger.send(kMessage)));
  const std::uint64_t third = ledger.send(kMessage);
  EXPECT_TRUE(ledger.exceeds_window(third));
  EXPECT_EQ(ledger.told(WireHeader::kCredit, kMessage).size(), 0u) << "nobody waits";
  EXPECT_FALSE(ledger.exceeds_window(third));
}

TEST(EagerFlowControl, WaitingSendsAreToldInTheirOrderAsSoonAsEnoughHasArrived) {
  EagerFlowControl ledger;
  for (Token token = 0; token < 6; ++token) {
    const std::uint64_t end = ledger.send(kMessage);
    if (ledger.exceeds_window(end)) ledger.delay_completion(end, token);
  }
  EXPECT_EQ(ledger.told(WireHeader::kBuffered, 2 * kMessage), (std::vector<Token>{2, 3}));
  EXPECT_EQ(ledger.told(WireHeader::kUnbuffered, 2 * kMessage), (std::vector<Token>{}))
      << "they had come before";
  EXPECT_EQ(ledger.take_delayed(), (std::vector<Token>{4, 5}));
  EXPECT_EQ(ledger.take_delayed(), (std::vector<Token>{}));
}

TEST(EagerFlowControl, BufferedBytesDoNotCountAgainstTheWindowButAreNotTaken) {
  EagerFlowControl ledger;
  for (int i = 0; i < 3; ++i) ledger.send(kMessage);
  EXPECT_EQ(ledger.untaken(), 3 * kMessage);
  ledger.told(WireHeader::kBuffered, 2 * kMessage);
  EXPECT_EQ(ledger.untaken(), 3 * kMessage);
  EXPECT_FALSE(ledger.exceeds_window(3 * kMessage));
  ledger.told(WireHeader::kUnbuffered, 2 * kMessage);
  EXPECT_EQ(ledger.untaken(), kMessage);
  ledger.told(WireHeader::kCredit, kMessage);
  EXPECT_EQ(ledger.untaken(), 0u);
}

TEST(EagerFlowControl, APeerThatTellsOfMoreThanWasSentChangesNothing) {
  EagerFlowControl ledger;
  ledger.send(kMessage);
  ledger.told(WireHeader::kCredit, ~std::uint64_t{0});
  EXPECT_EQ(ledger.untaken(), 0u);
  ledger.send(kMessage);
  EXPECT_EQ(ledger.untaken(), kMessage);
  ledger.told(WireHeader::kHello, kMessage);
  EXPECT_EQ(ledger.untaken(), kMessage) << "not about bytes";
}

TEST(EagerFlowControl, ReceiversTellInStepsByKindAndForgetNothing) {
  EagerFlowControl ledger(1000);
  EXPECT_EQ(ledger.count(WireHeader::kCredit, 999), std::nullopt);
  EXPECT_EQ(ledger.count(WireHeader::kBuffered, 600), std::nullopt);
  EXPECT_EQ(ledger.count(WireHeader::kCredit, 1), 1000u);
  EXPECT_EQ(ledger.count(WireHeader::kBuffered, 600), 1200u);
  EXPECT_EQ(ledger.count(WireHeader::kUnbuffered, 5000), 5000u);
  EXPECT_EQ(ledger.count(WireHeader::kCredit, 10), std::nullopt)
      << "what was told is not told again";
}

// Keeping and taking messages in any order, a receiver reports each as finished in the end.
// The receiver has less than two unreported steps.
TEST(EagerFlowControl, NoSendWaitsForEverWhateverTheReceiverDoes) {
  const std::uint64_t seed = 7;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    EagerFlowControl sender, receiver;
    const auto tell = [&](WireHeader::Kind kind, std::size_t bytes) {
      std::size_t finished = 0;
      if (const auto told = receiver.count(kind, bytes)) finished = sender.told(kind, *told).size();
      return finished;
    };
    std::size_t waiting = 0;
    std::vector<std::size_t> kept;
    for (Token token = 0; token < 60; ++token) {
      const std::size_t bytes = 1 + random() % (100 * 1024);
      const std::uint64_t end = sender.send(bytes);
      if (sender.exceeds_window(end)) {
        sender.delay_completion(end, token);
        ++waiting;
      }
      if (random() % 2 == 0) {
        waiting -= tell(WireHeader::kCredit, bytes);
      } else {
        waiting -= tell(WireHeader::kBuffered, bytes);
        kept.push_back(bytes);
      }
      if (!kept.empty() && random() % 3 == 0) {
        waiting -= tell(WireHeader::kUnbuffered, kept.back());
        kept.pop_back();
      }
    }
    EXPECT_EQ(waiting, 0u);
    for (const std::size_t bytes : kept) tell(WireHeader::kUnbuffered, bytes);
    EXPECT_LT(sender.untaken(), 2 * EagerFlowControl::kStep);
  }
}

}  // namespace
}  // namespace weft::transfer
