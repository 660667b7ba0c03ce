// Items of map(), with calls that the test ends.

#include "actors/call/map_run.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/call/call_frame.h"

namespace weft::actors {
namespace {

class NoSystem final : public CallOwner {
 public:
  void withdraw(const CallState&) override {}
  void pull(const CallState&, std::uint64_t, std::uint64_t) override {}
  bool resend(const std::shared_ptr<CallState>&, const Error&) override { return false; }
  DecodeContext* decode_context() override { return nullptr; }
};

/// Run of map() over actors "a", "b", ...; `calls` are those that it has made.
struct Mapping {
  explicit Mapping(std::size_t num_actors) {
    for (std::size_t i = 0; i < num_actors; ++i) {
      ActorAddress address;
      address.label = std::string(1, static_cast<char>('a' + i));
      setup.actors.push_back(std::make_shared<const ActorAddress>(address));
    }
    setup.options.in_flight = 1;
    setup.call = [this](const auto& actor, const auto&) {
      auto call = std::make_shared<CallState>(system, actor, "work", TimePoint::max());
      call->sent = true;
      calls.push_back(call);
      called += actor->label;
      if (on_call) on_call(*call);
      return call;
    };
  }
  /// Gives the actors an owner, which restarts them.
  void supervise() {
    for (auto& actor : setup.actors) {
      ActorAddress owned = *actor;
      owned.owner.id = ProcessId(7);
      actor = std::make_shared<const ActorAddress>(owned);
    }
  }
  void start(std::size_t items) {
    queue = MapRun::start(setup, std::vector<std::vector<std::byte>>(items));
  }
  /// Returns the next result, which must be there.
  Completion take() const {
    const auto next = queue->next();
    EXPECT_TRUE(next->done());
    if (next->done()) return *CompletionQueue::take(*next);
    return {99, Error(ErrorCode::kInternal, "no result is there"), nullptr};
  }
  bool fail(std::size_t call, ErrorCode code, const std::string& why, bool sent = true) const {
    calls[call]->sent = sent;
    return calls[call]->fail(with_call_outcome(Error(code, why), *calls[call]));
  }

  NoSystem system;
  MapRun::Setup setup;
  std::vector<std::shared_ptr<CallState>> calls;
  std::string called;  // labels of the called actors
  std::function<void(CallState&)> on_call;
  std::shared_ptr<MapRun> queue;
};

TEST(MapRun, ARefusalMovesTheItemButTheSameErrorOfAHandlerDoesNot) {
  Mapping run(2);
  run.start(3);
  const Error error = Error(ErrorCode::kNotFound, "a has ended").from("node", "a");
  run.calls[0]->fail(error, CallProgress::kFailed);
  EXPECT_EQ(run.take().result.error().message(), "a has ended");
  EXPECT_EQ(run.called, "aba") << "the actor gets the next item";
  run.calls[2]->fail(error, CallProgress::kNotStarted);
  run.calls[1]->complete({});
  EXPECT_EQ(run.called, "abab") << "the refused item goes to the other actor";
  run.calls[3]->complete({});
  EXPECT_TRUE(run.take().result.ok());
  EXPECT_EQ(run.take().key, 2u);
}

TEST(MapRun, AStoppingActorThatMayComeBackIsTriedFiveTimesAtMost) {
  Mapping run(1);
  run.supervise();
  run.on_call = [](CallState& call) {
    call.fail(Error(ErrorCode::kCancelled, "a was stopped"), CallProgress::kNotStarted);
  };
  run.start(1);
  EXPECT_EQ(run.called, "aaaaa");
  EXPECT_EQ(run.take().result.error().message(), "a was stopped");
}

TEST(MapRun, ACallOfARestartedActorThatMayHaveRunIsNotRepeatedAgain) {
  Mapping run(2);
  run.supervise();
  run.setup.idempotent = true;
  run.start(2);
  run.fail(0, ErrorCode::kPeerDied, "a died five times");
  EXPECT_EQ(run.take().key, 0u);
  run.calls[1]->complete({});
  EXPECT_TRUE(run.take().result.ok());
  EXPECT_EQ(run.called, "ab");
}

TEST(MapRun, AnItemThatWasNotSentDoesNotGetTheOutcomeOfAnotherOne) {
  Mapping run(2);
  run.start(4);
  run.fail(0, ErrorCode::kPeerDied, "a died");
  EXPECT_EQ(run.take().result.error().message(),
            "a died; your call 'work' had been sent; whether it ran is unknown");
  run.fail(1, ErrorCode::kPeerDied, "b died");
  EXPECT_EQ(run.take().key, 1u);
  for (const std::size_t item : {2, 3}) {
    const Completion unsent = run.take();
    EXPECT_EQ(unsent.key, item);
    EXPECT_EQ(unsent.result.error().code(), ErrorCode::kPeerDied);
    EXPECT_EQ(unsent.result.error().message(), "this item was not sent: no actor is left: b died");
  }
}

TEST(MapRun, AnItemThatDoesNotFitWaitsForTheNextResult) {
  Mapping run(2);
  bool full = true;
  run.on_call = [&](CallState& call) {
    if (call.target->label != "a" || !full) return;
    call.sent = false;
    call.fail(Error(ErrorCode::kResourceExhausted, "the mailbox of a is full"));
  };
  run.start(3);
  EXPECT_EQ(run.called, "ab");
  run.calls[1]->complete({});
  EXPECT_EQ(run.called, "abab") << "tried again";
  full = false;
  run.calls[3]->complete({});
  EXPECT_EQ(run.called, "ababa");
  run.calls[4]->complete({});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.take().result.ok());
}

TEST(MapRun, AnItemThatDoesNotFitFailsIfNothingElseIsUnderWay) {
  Mapping run(2);
  run.on_call = [&](CallState& call) {
    call.sent = false;
    call.fail(Error(ErrorCode::kResourceExhausted, "the mailbox is full"));
  };
  run.start(2);
  EXPECT_EQ(run.called, "ab");
  EXPECT_EQ(run.take().result.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(run.called, "abab") << "tried again once the result is taken";
  EXPECT_EQ(run.take().key, 1u);
}

TEST(MapRun, CallsDoNotBlockTheThreadThatMakesThem) {
  Mapping run(1);
  run.on_call = [](CallState& call) {
    EXPECT_TRUE(on_actor_thread());
    call.complete({});
  };
  run.start(1);
  EXPECT_FALSE(on_actor_thread());
}

TEST(MapRun, AnotherThreadTakesOverAfterATurn) {
  Mapping run(2);
  std::vector<std::thread::id> threads;
  run.on_call = [&](CallState& call) {
    threads.push_back(std::this_thread::get_id());
    if (threads.size() > 2) call.complete({});
    // A turn has two items. This is the second one of the second turn.
    if (threads.size() == 4) std::thread([&] { run.calls[1]->complete({}); }).join();
  };
  run.start(6);
  EXPECT_EQ(run.called, "ab");
  run.calls[0]->complete({});
  EXPECT_EQ(run.called, "abaab");
  ASSERT_EQ(threads.size(), 5u);
  EXPECT_EQ(threads[3], std::this_thread::get_id());
  EXPECT_NE(threads[4], std::this_thread::get_id());
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(run.take().result.ok());
}

}  // namespace
}  // namespace weft::actors
