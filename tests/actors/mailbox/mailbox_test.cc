#include "actors/mailbox/mailbox.h"

#include <gtest/gtest.h>

#include <thread>
#include <variant>
#include <vector>

namespace weft::actors {
namespace {

class FakeRoute final : public ReturnRoute {
 public:
  void reply(Reply, bool) override {}
  void grant(const Credit&) override {}
  void send_values(Values) override {}
  void run_soon(std::function<void()>) override {}
  ProcessRef peer() const override { return peer_; }

 private:
  ProcessRef peer_;
};

Envelope envelope(const std::shared_ptr<ReturnRoute>& route, std::uint64_t id, bool urgent = false,
                  std::size_t bytes = 8) {
  Envelope made;
  made.call.id = id;
  made.call.urgent = urgent;
  made.call.arguments.resize(bytes);
  made.route = route;
  return made;
}

Mailbox::Refusal push(Mailbox& mailbox, Envelope made) { return mailbox.push(made); }
std::uint64_t next_id(Mailbox& mailbox, Mailbox::Ordinary ordinary = Mailbox::Ordinary::kAll) {
  return std::get<Envelope>(mailbox.next(ordinary)).call.id;
}

TEST(Mailbox, WhatIsResumedLaterComesAfterOtherWorkButAlternatesWithOrdinaryCalls) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  int frame = 0;
  const auto resumed = [&] {
    const auto item = mailbox.next(Mailbox::Ordinary::kAll);
    return std::get<Resumption>(item).frame == &frame;
  };
  mailbox.resume_later({nullptr, &frame});
  mailbox.resume_later({nullptr, &frame});
  for (std::uint64_t id = 1; id <= 3; ++id) push(mailbox, envelope(route, id));
  push(mailbox, envelope(route, 4, true));
  EXPECT_TRUE(mailbox.has_more());
  EXPECT_EQ(next_id(mailbox), 4u);
  EXPECT_EQ(next_id(mailbox), 1u);
  EXPECT_TRUE(resumed());
  EXPECT_EQ(next_id(mailbox), 2u);
  EXPECT_TRUE(resumed());
  EXPECT_EQ(next_id(mailbox), 3u);
  EXPECT_FALSE(mailbox.has_more());
  mailbox.resume_later({nullptr, &frame});
  push(mailbox, envelope(route, 5));
  EXPECT_TRUE(mailbox.try_next(Mailbox::Ordinary::kNone)) << "the call cannot start";
  EXPECT_FALSE(mailbox.try_next(Mailbox::Ordinary::kNone));
}

TEST(Mailbox, KnowsThatTheSenderOfTheLastCallWasRemoved) {
  const auto route = std::make_shared<FakeRoute>(), other = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  push(mailbox, envelope(route, 1));
  EXPECT_EQ(next_id(mailbox), 1u);
  mailbox.remove_sender(other.get());
  EXPECT_FALSE(mailbox.last_lost_its_sender());
  mailbox.remove_sender(route.get());
  EXPECT_TRUE(mailbox.last_lost_its_sender());
  push(mailbox, envelope(other, 2));
  EXPECT_EQ(next_id(mailbox), 2u);
  EXPECT_FALSE(mailbox.last_lost_its_sender());
}

TEST(Mailbox, OrdinaryCallsComeInOrderAndUrgentOnesFirst) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  for (std::uint64_t id = 1; id <= 3; ++id)
    ASSERT_EQ(push(mailbox, envelope(route, id)), Mailbox::Refusal::kNone);
  ASSERT_EQ(push(mailbox, envelope(route, 9, true)), Mailbox::Refusal::kNone);
  EXPECT_EQ(next_id(mailbox), 9u);
  for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(next_id(mailbox), id);
}

TEST(Mailbox, ACancelThatComesJustAfterACallWasTakenIsRemembered) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  for (std::uint64_t id = 1; id <= 2; ++id) (void)push(mailbox, envelope(route, id));
  EXPECT_EQ(next_id(mailbox), 1u);
  EXPECT_FALSE(mailbox.cancel(std::make_shared<FakeRoute>().get(), 1));
  EXPECT_FALSE(mailbox.last_was_cancelled());  // call 1 of another sender
  EXPECT_FALSE(mailbox.cancel(route.get(), 1));
  EXPECT_TRUE(mailbox.last_was_cancelled());
  EXPECT_EQ(next_id(mailbox), 2u);
  EXPECT_FALSE(mailbox.last_was_cancelled());
}

TEST(Mailbox, WhileAHandlerIsSuspendedOnlyWakeUpsAndUrgentCallsAreTaken) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  (void)push(mailbox, envelope(route, 1));
  std::jthread other([&] { (void)push(mailbox, envelope(route, 5, true)); });
  EXPECT_EQ(next_id(mailbox, Mailbox::Ordinary::kNone), 5u);
  mailbox.post([] {});
  EXPECT_TRUE(std::holds_alternative<Mailbox::Task>(mailbox.next(Mailbox::Ordinary::kNone)));
  EXPECT_EQ(next_id(mailbox), 1u);
}

TEST(Mailbox, TasksThatAreHeldBackKeepTheirOrderAndOtherWakeUpsPassThem) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  std::vector<int> ran;
  for (const int task : {1, 2}) mailbox.post([&ran, task] { ran.push_back(task); });
  EXPECT_FALSE(mailbox.try_next(Mailbox::Ordinary::kNoTasks));
  mailbox.resume({});
  (void)push(mailbox, envelope(route, 7));
  EXPECT_TRUE(std::holds_alternative<Resumption>(mailbox.next(Mailbox::Ordinary::kNoTasks)));
  EXPECT_FALSE(mailbox.try_next(Mailbox::Ordinary::kNoTasks));
  mailbox.post([&ran] { ran.push_back(3); });
  for (int i = 0; i < 3; ++i) std::get<Mailbox::Task>(mailbox.next(Mailbox::Ordinary::kNone))();
  EXPECT_EQ(ran, (std::vector{1, 2, 3}));
  EXPECT_EQ(next_id(mailbox), 7u);
}

TEST(Mailbox, ConcurrentCallsStartInOrderAndWaitBehindOneThatIsNot) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    Envelope made = envelope(route, id);
    made.concurrent = id != 2;
    (void)mailbox.push(made);
  }
  EXPECT_EQ(next_id(mailbox, Mailbox::Ordinary::kConcurrent), 1u);
  EXPECT_FALSE(mailbox.try_next(Mailbox::Ordinary::kConcurrent));
  EXPECT_EQ(next_id(mailbox, Mailbox::Ordinary::kAll), 2u);
  EXPECT_EQ(next_id(mailbox, Mailbox::Ordinary::kConcurrent), 3u);
}

TEST(Mailbox, OneThatFoundNoWorkIsToldOnceThatThereIsSome) {
  const auto route = std::make_shared<FakeRoute>();
  int told = 0;
  Mailbox mailbox(ActorId(1), {}, [&] { ++told; });
  (void)push(mailbox, envelope(route, 1));
  EXPECT_EQ(told, 0) << "nobody looked for work yet";
  EXPECT_EQ(next_id(mailbox), 1u);
  EXPECT_FALSE(mailbox.try_next(Mailbox::Ordinary::kAll));
  for (std::uint64_t id = 2; id <= 4; ++id) (void)push(mailbox, envelope(route, id));
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(mailbox.try_next(Mailbox::Ordinary::kNone));
  mailbox.request_stop();
  EXPECT_EQ(told, 2);
}

TEST(Mailbox, ASenderBeyondItsWindowIsRefused) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {128, 1 << 20});
  for (std::uint64_t id = 0; id < 128; ++id)
    ASSERT_EQ(push(mailbox, envelope(route, id)), Mailbox::Refusal::kNone);
  EXPECT_EQ(push(mailbox, envelope(route, 128)), Mailbox::Refusal::kOverrun);
  (void)next_id(mailbox);
  EXPECT_EQ(push(mailbox, envelope(route, 129)), Mailbox::Refusal::kNone);
}

TEST(Mailbox, TheWindowIsSharedAmongSendersAndTheSumStaysWithinTheLimit) {
  Mailbox mailbox(ActorId(1), {1000, 1 << 20});
  std::vector<std::shared_ptr<FakeRoute>> routes;
  for (int i = 0; i < 10; ++i) routes.push_back(std::make_shared<FakeRoute>());
  for (int round = 0; round < 2; ++round) {
    for (const auto& route : routes) (void)push(mailbox, envelope(route, 1));
    for (std::size_t i = 0; i < routes.size(); ++i) (void)next_id(mailbox);
  }
  std::vector<CreditReport> reports;
  mailbox.drain_credit_reports(reports);
  ASSERT_EQ(reports.size(), 10u);
  std::uint64_t sum = 0;
  for (const auto& report : reports) sum += report.credit.window_messages;
  EXPECT_LE(sum, 1000u);
  EXPECT_EQ(reports[0].credit.consumed_messages, 2u);
}

TEST(Mailbox, ARouteThatNeedsNoCreditIsNoSender) {
  struct LimitedElsewhere final : ReturnRoute {
    void reply(Reply, bool) override {}
    void grant(const Credit&) override {}
    bool needs_credit() const override { return false; }
    void send_values(Values) override {}
    void run_soon(std::function<void()>) override {}
    ProcessRef peer() const override { return {}; }
  };
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  ASSERT_EQ(push(mailbox, envelope(route, 1)), Mailbox::Refusal::kNone);
  const auto alone = mailbox.request_report(route.get());
  for (std::uint64_t id = 2; id < 40; ++id) {
    const auto other = std::make_shared<LimitedElsewhere>();
    ASSERT_EQ(push(mailbox, envelope(other, id)), Mailbox::Refusal::kNone);
    EXPECT_EQ(mailbox.request_report(other.get()), std::nullopt);
  }
  EXPECT_EQ(mailbox.request_report(route.get())->window_messages, alone->window_messages);
  for (std::uint64_t id = 1; id < 40; ++id) EXPECT_EQ(next_id(mailbox), id);
}

TEST(Mailbox, CancelTakesAWaitingCallOutAndCountsItAsConsumed) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  (void)push(mailbox, envelope(route, 1));
  (void)push(mailbox, envelope(route, 2));
  EXPECT_EQ(mailbox.cancel(route.get(), 1)->call.id, 1u);
  EXPECT_FALSE(mailbox.cancel(route.get(), 1));
  EXPECT_EQ(next_id(mailbox), 2u);
  std::vector<CreditReport> reports;
  mailbox.drain_credit_reports(reports);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].credit.consumed_messages, 2u);
}

TEST(Mailbox, AClosedMailboxReturnsWaitingCallsAndTakesNoMore) {
  const auto route = std::make_shared<FakeRoute>();
  Mailbox mailbox(ActorId(1), {});
  (void)push(mailbox, envelope(route, 1));
  EXPECT_EQ(mailbox.close().size(), 1u);
  EXPECT_EQ(push(mailbox, envelope(route, 2)), Mailbox::Refusal::kClosed);
  EXPECT_FALSE(mailbox.post([] {}));
}

TEST(SendWindow, HoldsBackWhatExceedsMessagesOrBytesButLetsOneLargeMessageGoAlone) {
  SendWindow window;
  EXPECT_TRUE(window.admits(100u << 20));
  window.sent(100u << 20);
  EXPECT_FALSE(window.admits(1));
  EXPECT_TRUE(window.update(1, 100u << 20, 2, 1000));
  window.sent(600);
  EXPECT_FALSE(window.admits(600));
  EXPECT_TRUE(window.admits(400));
  window.sent(1);
  EXPECT_FALSE(window.admits(1));
}

TEST(SendWindow, IgnoresReportsThatCannotBeTrue) {
  SendWindow window;
  window.sent(10);
  EXPECT_FALSE(window.update(2, 10, 64, 1000));
  EXPECT_FALSE(window.update(1, 11, 64, 1000));
  EXPECT_TRUE(window.update(1, 10, 64, 1000));
  EXPECT_FALSE(window.update(0, 0, 64, 1000));
}

}  // namespace
}  // namespace weft::actors
