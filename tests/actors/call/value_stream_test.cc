// Both ends of a generator's stream, without processes: ValueSender and ValueQueue.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/call/call_frame.h"
#include "actors/call/value_queue.h"
#include "actors/call/value_sender.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::throws_error;

std::vector<std::byte> bytes(std::size_t size, int content = 0) {
  return std::vector<std::byte>(size, static_cast<std::byte>(content));
}

using Message = std::vector<std::vector<std::byte>>;

/// Route that writes when it is told to, and notes the values of each message.
class LazyRoute final : public ReturnRoute {
 public:
  void reply(Reply, bool) override {}
  void grant(const Credit&) override {}
  ProcessRef peer() const override { return {}; }
  void send_values(Values values) override { messages.push_back(std::move(values.values)); }
  void run_soon(std::function<void()> send) override { due.push_back(std::move(send)); }
  void write() {
    for (const auto& send : std::exchange(due, {})) send();
  }
  std::vector<std::function<void()>> due;
  std::vector<Message> messages;
};

struct ValueSenderTest : testing::Test {
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>(ActorId(1), MailboxLimits());
  std::shared_ptr<LazyRoute> route = std::make_shared<LazyRoute>();
  std::shared_ptr<ValueSender> sender = std::make_shared<ValueSender>(mailbox, route, 7);
  int frame = 0;

  // A write that is due holds the sender, and the sender its route.
  ~ValueSenderTest() override { route->due.clear(); }
  bool generator_was_resumed() {
    const auto item = mailbox->try_next(Mailbox::Ordinary::kNone);
    return item && std::get<Resumption>(*item).frame == &frame;
  }
};

TEST_F(ValueSenderTest, SendsInOneMessageWhatIsQueuedUntilTheWrite) {
  for (int i = 0; i < 3; ++i) sender->add(bytes(8, i));
  EXPECT_TRUE(route->messages.empty());
  EXPECT_EQ(route->due.size(), 1u);
  route->write();
  ASSERT_EQ(route->messages.size(), 1u);
  EXPECT_EQ(route->messages[0], (std::vector{bytes(8, 0), bytes(8, 1), bytes(8, 2)}));
  sender->add(bytes(8, 3));
  sender->send_ready();
  EXPECT_EQ(route->messages.size(), 2u) << "before the reply nothing may wait";
  route->write();
  EXPECT_EQ(route->messages.size(), 2u);
}

TEST_F(ValueSenderTest, SendsLargeValuesAtOnceAfterTheEarlierOnes) {
  sender->add(bytes(8, 1));
  sender->add(bytes(100 << 10, 2));
  ASSERT_EQ(route->messages.size(), 2u);
  EXPECT_EQ(route->messages[0], (Message{bytes(8, 1)}));
  EXPECT_EQ(route->messages[1], (Message{bytes(100 << 10, 2)}));
}

TEST_F(ValueSenderTest, PutsNoLargeValueIntoTheMessageOfEarlierOnes) {
  sender->add(bytes(60 << 10, 1));
  sender->add(bytes(60 << 20, 2));
  ASSERT_EQ(route->messages.size(), 2u);
  EXPECT_EQ(route->messages[0], (Message{bytes(60 << 10, 1)}));
  EXPECT_EQ(route->messages[1].size(), 1u);
}

TEST_F(ValueSenderTest, LetsUrgentCallsPrecedeAGeneratorThatHasRoomAgain) {
  for (std::uint32_t i = 0; i < kStreamWindowValues; ++i) sender->add(bytes(8));
  EXPECT_TRUE(sender->wait({nullptr, &frame}));
  sender->grant(8, 64);
  Envelope urgent{{}, route};
  urgent.call.id = 5;
  urgent.call.urgent = true;
  EXPECT_EQ(mailbox->push(urgent), Mailbox::Refusal::kNone);
  const auto first = mailbox->try_next(Mailbox::Ordinary::kNone);
  EXPECT_TRUE(std::holds_alternative<Envelope>(first.value()));
  EXPECT_TRUE(generator_was_resumed());
}

TEST_F(ValueSenderTest, ResumesTheGeneratorOnceThereIsRoom) {
  for (std::uint32_t i = 0; i < kStreamWindowValues; ++i) {
    EXPECT_TRUE(sender->has_room());
    EXPECT_FALSE(sender->wait({nullptr, &frame}));
    sender->add(bytes(8));
  }
  EXPECT_FALSE(sender->has_room());
  EXPECT_TRUE(sender->wait({nullptr, &frame}));
  EXPECT_TRUE(sender->waits());
  sender->grant(100, 800);
  EXPECT_TRUE(sender->waits()) << "more than was sent is no report";
  sender->grant(8, 64);
  EXPECT_FALSE(sender->waits());
  EXPECT_TRUE(generator_was_resumed());
  sender->stop_waiting();
  EXPECT_FALSE(generator_was_resumed()) << "it is resumed once";
}

/// Call of a generator whose reader has room.
class OpenCall final : public CallFrame {
 public:
  OpenCall(std::shared_ptr<Mailbox> mailbox, Envelope envelope)
      : CallFrame(std::move(mailbox), std::move(envelope), nullptr) {}
  void reply(Outcome<std::vector<std::byte>>) override {}
};

TEST_F(ValueSenderTest, AGeneratorStopsAtItsCoYieldForOtherWorkAndForCreditReports) {
  Envelope own{{}, route};
  own.call.id = 1;
  OpenCall open(mailbox, std::move(own));
  open.begin_values();
  EXPECT_TRUE(open.may_yield_on());
  Envelope urgent{{}, route};
  urgent.call.urgent = true;
  EXPECT_EQ(mailbox->push(urgent), Mailbox::Refusal::kNone);
  EXPECT_FALSE(open.may_yield_on());
  EXPECT_TRUE(mailbox->try_next(Mailbox::Ordinary::kNone));
  EXPECT_TRUE(open.may_yield_on());
  Envelope first_of_sender{{}, route};
  EXPECT_EQ(mailbox->push(first_of_sender), Mailbox::Refusal::kNone);
  EXPECT_TRUE(mailbox->try_next(Mailbox::Ordinary::kAll));
  EXPECT_FALSE(open.may_yield_on()) << "its sender waits for credit";
  std::vector<CreditReport> reports;
  mailbox->drain_credit_reports(reports);
  EXPECT_EQ(reports.size(), 1u);
  EXPECT_TRUE(open.may_yield_on());
  open.cancel();
  EXPECT_FALSE(open.may_yield_on());
}

/// Caller that notes what is reported to generators.
class NotedPulls final : public CallOwner {
 public:
  void withdraw(const CallState&) override {}
  bool resend(const std::shared_ptr<CallState>&, const Error&) override { return false; }
  void pull(const CallState&, std::uint64_t values, std::uint64_t sizes) override {
    pulls.emplace_back(values, sizes);
  }
  DecodeContext* decode_context() override { return nullptr; }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pulls;
};

struct ValueQueueTest : testing::Test {
  NotedPulls owner;
  std::shared_ptr<CallState> call;
  std::shared_ptr<ValueQueue> queue =
      ValueQueue::make(1, [this](std::size_t, const ValueSink& sink) {
        call = std::make_shared<CallState>(owner, std::make_shared<const ActorAddress>(), "count",
                                           TimePoint::max());
        call->sink = sink;
        return call;
      });

  // A call that is not done holds its queue.
  ~ValueQueueTest() override { call->cancel(); }
  void give(std::size_t number, std::size_t size = 8) {
    queue->on_values(*call, std::vector(number, bytes(size)));
  }
  std::optional<Completion> take() { return CompletionQueue::take(*queue->next()); }
};

TEST_F(ValueQueueTest, ReportsAtHalfOfTheWindow) {
  give(kStreamWindowValues);
  for (std::uint32_t i = 0; i < kStreamWindowValues / 2; ++i) {
    EXPECT_TRUE(owner.pulls.empty());
    EXPECT_TRUE(take()->result.ok());
  }
  EXPECT_EQ(owner.pulls, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{8, 64}}));
  give(1, kStreamWindowBytes);
  for (std::uint32_t i = 0; i < kStreamWindowValues / 2; ++i) EXPECT_TRUE(take());
  EXPECT_EQ(owner.pulls.size(), 2u);
  EXPECT_TRUE(take());
  EXPECT_EQ(owner.pulls.back(), (std::pair<std::uint64_t, std::uint64_t>(17, 128 + (1 << 20))));
}

TEST_F(ValueQueueTest, DropsValuesThatComeAfterTheEndAndReportsNothingMore) {
  give(10);
  call->cancel();
  give(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(take()->result.ok());
  EXPECT_EQ(take()->result.error().code(), ErrorCode::kCancelled);
  EXPECT_FALSE(take());
  EXPECT_TRUE(owner.pulls.empty());
}

TEST_F(ValueQueueTest, RefusesMoreValuesThanTheWindowHas) {
  give(kStreamWindowValues);
  EXPECT_THAT([&] { give(1); }, throws_error(ErrorCode::kDataLoss, "more values than 16"));
}

}  // namespace
}  // namespace weft::actors
