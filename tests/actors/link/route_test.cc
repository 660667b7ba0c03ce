#include "actors/link/route.h"

#include <gtest/gtest.h>

#include <thread>

#include "actors/call/call_frame.h"

namespace weft::actors {
namespace {

/// Route that records the messages sent over it.
class NotedRoute final : public Route {
 public:
  std::vector<std::uint64_t> sent;
  std::atomic<int> credit_requests{0};
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return sent.size();
  }
  void reply(Reply, bool) override {}
  void grant(const Credit&) override {}
  void send_values(Values) override {}
  void run_soon(std::function<void()>) override {}
  ProcessRef peer() const override { return peer_; }

 protected:
  std::optional<Error> transmit(OutgoingCall& outgoing) override {
    sent.push_back(outgoing.call.id);
    return std::nullopt;
  }
  void request_credit(ActorId) override { ++credit_requests; }
  void flush(bool) override {}

 private:
  ProcessRef peer_;
};

class NoOwner final : public CallOwner {
 public:
  void withdraw(const CallState&) override {}
  void pull(const CallState&, std::uint64_t, std::uint64_t) override {}
  bool resend(const std::shared_ptr<CallState>&, const Error&) override { return false; }
  DecodeContext* decode_context() override { return nullptr; }
};

struct RouteTest : testing::Test {
  NoOwner owner;
  NotedRoute route;
  std::mutex mutex;
  std::vector<std::shared_ptr<CallState>> states;

  void send(std::uint64_t id, bool urgent = false) {
    auto state =
        std::make_shared<CallState>(owner, std::make_shared<const ActorAddress>(), "method",
                                    SteadyClock().now() + std::chrono::seconds(20));
    {
      const std::lock_guard lock(mutex);
      states.push_back(state);
    }
    Call call;
    call.id = id;
    call.actor = ActorId(1);
    call.urgent = urgent;
    route.send({std::move(call), state, state->deadline});
  }
};

TEST_F(RouteTest, CallsWaitUntilTheConnectionIsThereAndKeepTheirOrder) {
  for (std::uint64_t id = 1; id <= 5; ++id) send(id);
  EXPECT_EQ(route.count(), 0u);
  EXPECT_FALSE(states[0]->sent);
  route.open();
  EXPECT_EQ(route.sent, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(states[0]->sent);
}

TEST_F(RouteTest, WithoutCreditCallsAreHeldAndThenTheCallerWaits) {
  route.open();
  for (std::uint64_t id = 1; id <= kInitialMessages + kMaxHeldCalls; ++id) send(id);
  EXPECT_EQ(route.count(), kInitialMessages);
  EXPECT_EQ(route.held(), kMaxHeldCalls);
  EXPECT_EQ(route.credit_requests, 1);
  std::jthread blocked([&] { send(1000); });
  send(2000, true);  // urgent calls need no credit
  EXPECT_EQ(route.sent.back(), 2000u);
  route.on_credit({ActorId(1), 10, 0, kInitialMessages, kInitialBytes});
  blocked.join();
  EXPECT_EQ(route.count(), kInitialMessages + 10 + 1);
  EXPECT_EQ(route.held(), kMaxHeldCalls - 10 + 1);
}

class QuietFrame final : public CallFrame {
 public:
  QuietFrame() : CallFrame(nullptr, {}, nullptr) {}
  void reply(Outcome<std::vector<std::byte>>) override {}
};

TEST_F(RouteTest, ABlockingHandlerThatIsCancelledWaitsForSpaceNoLonger) {
  route.open();
  for (std::uint64_t id = 1; id <= kInitialMessages + kMaxHeldCalls; ++id) send(id);
  QuietFrame frame;
  std::jthread blocked([&] {
    set_blocking_call(&frame);
    send(1000);
  });
  frame.cancel();
  blocked.join();
  ASSERT_TRUE(states.back()->done());
  EXPECT_EQ(states.back()->error()->code(), ErrorCode::kCancelled);
  EXPECT_EQ(route.held(), kMaxHeldCalls);
}

TEST_F(RouteTest, ClosingEndsWhatIsHeldWithTheReasonAndTheOutcome) {
  send(1);
  route.close(Error(ErrorCode::kPeerDied, "worker0 died: SIGKILL"));
  ASSERT_TRUE(states[0]->done());
  EXPECT_EQ(states[0]->error()->code(), ErrorCode::kPeerDied);
  EXPECT_NE(states[0]->error()->message().find(
                "worker0 died: SIGKILL; your call 'method' had not been sent"),
            std::string::npos)
      << states[0]->error()->message();
  send(2);
  EXPECT_TRUE(states[1]->done());
}

TEST_F(RouteTest, AHeldCallCanBeWithdrawn) {
  send(1);
  send(2);
  EXPECT_TRUE(route.withdraw(ActorId(1), 1));
  EXPECT_FALSE(route.withdraw(ActorId(1), 1));
  route.open();
  EXPECT_EQ(route.sent, (std::vector<std::uint64_t>{2}));
}

}  // namespace
}  // namespace weft::actors
