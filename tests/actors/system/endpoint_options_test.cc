// Options of methods: concurrent, blocking, deadline.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;
using ::testing::ElementsAre;

class Kitchen final {
 public:
  explicit Kitchen(Context& context) : context_(context), gate_(context.make_wakeup()) {}

  /// Waits for serve(number).
  task<int> cook(int number) {
    started.push_back(number);
    orders_.emplace(number, context_.make_wakeup());
    co_await orders_.at(number).wait();
    EXPECT_EQ(context_.caller().name, "kitchen");
    co_return number;
  }
  void serve(int number) { orders_.at(number).notify(); }
  /// Runs alone.
  void clean(int number) { started.push_back(number); }
  task<> clean_slowly(int number) {
    started.push_back(number);
    co_await gate_.wait();
  }
  void open_gate() { gate_.notify(); }
  std::vector<int> order() const { return started; }

  /// Blocks its thread until `released` is set or the call is cancelled.
  bool bake() {
    EXPECT_FALSE(on_actor_thread());
    EXPECT_EQ(current_actor(), context_.self().actor);
    EXPECT_EQ(context_.caller().name, "kitchen");
    baker = std::this_thread::get_id();
    ++baking;
    while (!released && !context_.stop_token().stop_requested()) std::this_thread::sleep_for(1ms);
    --baking;
    return released;
  }
  /// Has the actor's thread until `released` is set, whoever cancels it.
  void burn() {
    ++waiting;
    while (!released) std::this_thread::sleep_for(1ms);
  }
  /// Posts a task, which must not run beside a handler.
  void post_task() {
    context_.post([] {
      EXPECT_EQ(baking, 0);
      has_posted = true;
    });
  }
  int ask(ActorRef<Kitchen> other) { return other.call<&Kitchen::slow>().get(); }
  void close(MeshRef<Kitchen> others) { others.within(kNoDeadline).stop().get(); }
  task<int> slow() {
    ++waiting;
    co_await gate_.wait();
    co_return 7;
  }
  void fail() { throw Error(ErrorCode::kNotFound, "no oven"); }
  bool is_baking() const {
    EXPECT_TRUE(on_actor_thread());
    EXPECT_NE(baker.load(), std::this_thread::get_id());
    return baking > 0;
  }
  std::int64_t seconds_left() const {
    if (context_.deadline() == TimePoint::max()) return -1;
    return std::chrono::ceil<std::chrono::seconds>(context_.deadline() - SteadyClock().now())
        .count();
  }
  std::int64_t seconds_by_default() const { return seconds_left(); }
  std::int64_t seconds_for_ever() const { return seconds_left(); }
  void note_seconds() { noted = seconds_left(); }

  std::vector<int> started;
  static inline std::atomic<int> baking{0}, waiting{0};
  static inline std::atomic<bool> released{false}, has_posted{false};
  static inline std::atomic<std::thread::id> baker{};
  static inline std::atomic<std::int64_t> noted{0};

  static constexpr auto endpoints = interface<"test.kitchen", 1>(
      on<&Kitchen::cook>("cook", concurrent, deadline(10min)), on<&Kitchen::serve>("serve", urgent),
      on<&Kitchen::clean>("clean"), on<&Kitchen::clean_slowly>("clean_slowly"),
      on<&Kitchen::open_gate>("open_gate", urgent), on<&Kitchen::order>("order", urgent),
      on<&Kitchen::bake>("bake", blocking, idempotent), on<&Kitchen::ask>("ask", blocking),
      on<&Kitchen::slow>("slow"), on<&Kitchen::burn>("burn"),
      on<&Kitchen::close>("close", blocking), on<&Kitchen::fail>("fail", blocking),
      on<&Kitchen::is_baking>("is_baking", urgent), on<&Kitchen::post_task>("post_task", urgent),
      on<&Kitchen::seconds_left>("seconds_left", deadline(1h)),
      on<&Kitchen::seconds_by_default>("seconds_by_default"),
      on<&Kitchen::seconds_for_ever>("seconds_for_ever", deadline(kNoDeadline)),
      on<&Kitchen::note_seconds>("note_seconds", deadline(1h)));

 private:
  Context& context_;
  Wakeup gate_;
  std::map<int, Wakeup> orders_;
};

/// Every test runs with an actor on a thread of its own, and with one on shared threads.
class EndpointOptions : public ::testing::TestWithParam<ActorThread> {
 protected:
  EndpointOptions() {
    Kitchen::released = false;
    Kitchen::waiting = 0;
    Kitchen::baker = std::thread::id();  // an ended thread's id may be used again
    Kitchen::has_posted = false;
  }
  ActorRef<Kitchen> kitchen(const std::string& name = "kitchen") {
    return system_.host<Kitchen>(GetParam(), name);
  }
  bool starts(const ActorRef<Kitchen>& kitchen, const std::vector<int>& expected) {
    return eventually([&] { return kitchen.call<&Kitchen::order>().get() == expected; });
  }
  System system_{test::system_options("kitchen")};
};
INSTANTIATE_TEST_SUITE_P(Threads, EndpointOptions,
                         ::testing::Values(ActorThread::kOwn, ActorThread::kShared),
                         [](const auto& chosen) {
                           return chosen.param == ActorThread::kOwn ? "Own" : "Shared";
                         });

TEST_P(EndpointOptions, ConcurrentCallsStartInOrderAndEndInAny) {
  const auto cooks = kitchen();
  std::vector<Future<int>> meals;
  for (int i = 0; i < 5; ++i) meals.push_back(cooks.call<&Kitchen::cook>(i));
  EXPECT_TRUE(starts(cooks, {0, 1, 2, 3, 4}));
  for (const int number : {3, 1, 4, 0, 2}) {
    cooks.call<&Kitchen::serve>(number).get();
    EXPECT_EQ(meals[static_cast<std::size_t>(number)].get(), number);
  }
}

TEST_P(EndpointOptions, ACallThatIsNotConcurrentRunsAloneAndHoldsBackLaterOnes) {
  const auto cooks = kitchen();
  auto first = cooks.call<&Kitchen::cook>(0), second = cooks.call<&Kitchen::cook>(1);
  auto cleaned = cooks.call<&Kitchen::clean_slowly>(100);
  auto third = cooks.call<&Kitchen::cook>(2);
  EXPECT_TRUE(starts(cooks, {0, 1}));
  cooks.call<&Kitchen::serve>(0).get();
  EXPECT_EQ(first.get(), 0);
  EXPECT_THAT(cooks.call<&Kitchen::order>().get(), ElementsAre(0, 1));
  cooks.call<&Kitchen::serve>(1).get();
  EXPECT_TRUE(starts(cooks, {0, 1, 100}));
  EXPECT_FALSE(third.ready());
  cooks.call<&Kitchen::open_gate>().get();
  cleaned.get();
  EXPECT_TRUE(starts(cooks, {0, 1, 100, 2}));
  cooks.call<&Kitchen::serve>(2).get();
  EXPECT_EQ(second.get() + third.get(), 3);
}

TEST_P(EndpointOptions, ACancelledConcurrentCallLeavesTheOthers) {
  const auto cooks = kitchen();
  auto first = cooks.call<&Kitchen::cook>(0), second = cooks.call<&Kitchen::cook>(1);
  EXPECT_TRUE(starts(cooks, {0, 1}));
  first.cancel();
  auto cleaned = cooks.call<&Kitchen::clean>(100);
  cooks.call<&Kitchen::serve>(1).get();
  EXPECT_EQ(second.get(), 1);
  cleaned.get();
}

TEST_P(EndpointOptions, UrgentCallsRunWhileAHandlerBlocksAndOrdinaryOnesWait) {
  const auto cooks = kitchen();
  auto baked = cooks.call<&Kitchen::bake>();
  auto cleaned = cooks.call<&Kitchen::clean>(1);
  EXPECT_TRUE(eventually([&] { return cooks.call<&Kitchen::is_baking>().get(); }));
  EXPECT_THAT(cooks.call<&Kitchen::order>().get(), ElementsAre());
  Kitchen::released = true;
  EXPECT_TRUE(baked.get());
  cleaned.get();
  EXPECT_THAT(cooks.call<&Kitchen::order>().get(), ElementsAre(1));
}

TEST_P(EndpointOptions, PostedTasksWaitWhileAHandlerBlocks) {
  const auto cooks = kitchen();
  auto baked = cooks.call<&Kitchen::bake>();
  EXPECT_TRUE(eventually([&] { return cooks.call<&Kitchen::is_baking>().get(); }));
  cooks.call<&Kitchen::post_task>().get();
  EXPECT_TRUE(cooks.call<&Kitchen::is_baking>().get()) << "it comes after the task";
  EXPECT_FALSE(Kitchen::has_posted);
  Kitchen::released = true;
  EXPECT_TRUE(baked.get());
  EXPECT_TRUE(eventually([] { return Kitchen::has_posted.load(); }));
}

TEST_P(EndpointOptions, CallbacksOfABlockingCallRunWhereNothingMayBlock) {
  const auto cooks = kitchen();
  const auto baked = system_.call(std::make_shared<const ActorAddress>(cooks.address()),
                                  internal::method_of<Kitchen, &Kitchen::bake>(), kDefaultDeadline,
                                  encode(std::tuple<>()));
  std::atomic<bool> called = false, may_block = true;
  baked->when_done([&] {
    may_block = !on_actor_thread();
    called = true;
  });
  Kitchen::released = true;
  EXPECT_TRUE(eventually([&] { return called.load(); }));
  EXPECT_FALSE(may_block);
}

TEST_P(EndpointOptions, ArgumentsOfSuspendedConcurrentCallsAreBounded) {
  SystemOptions options = test::system_options("kitchen");
  options.mailbox.bytes = 1;
  System system(options);
  const auto cooks = system.host<Kitchen>(GetParam(), "kitchen");
  auto first = cooks.call<&Kitchen::cook>(0), second = cooks.call<&Kitchen::cook>(1);
  EXPECT_TRUE(starts(cooks, {0}));
  EXPECT_THAT(cooks.call<&Kitchen::order>().get(), ElementsAre(0));
  cooks.call<&Kitchen::serve>(0).get();
  EXPECT_TRUE(starts(cooks, {0, 1}));
  cooks.call<&Kitchen::serve>(1).get();
  EXPECT_EQ(first.get() + second.get(), 1);
}

TEST_P(EndpointOptions, BlockingHandlersMayWaitForOtherActors) {
  const auto cooks = kitchen(), other = kitchen("other");
  auto answer = cooks.call<&Kitchen::ask>(other);
  other.call<&Kitchen::open_gate>().get();
  EXPECT_EQ(answer.get(), 7);
  EXPECT_EQ(error_of([&] { cooks.call<&Kitchen::fail>().get(); }).message(), "no oven");
  cooks.call<&Kitchen::clean>(1).get();
}

TEST_P(EndpointOptions, AStoppedActorCancelsItsBlockingHandlerAndTheCallItWaitsFor) {
  const auto cooks = kitchen(), other = kitchen("other");
  auto answer = cooks.within(kNoDeadline).call<&Kitchen::ask>(other);
  EXPECT_TRUE(eventually([] { return Kitchen::waiting > 0; }));
  cooks.stop().get();
  EXPECT_EQ(error_of([&] { answer.get(); }).code(), ErrorCode::kCancelled);
  auto baked = other.call<&Kitchen::bake>();
  EXPECT_TRUE(eventually([] { return Kitchen::baking > 0; }));
  other.stop().get();
  EXPECT_FALSE(baked.get()) << "its stop token was set";
}

TEST_P(EndpointOptions, AStopThatABlockingHandlerWaitsForIsCancelledWithIt) {
  const auto cooks = kitchen(), other = kitchen("other");
  auto burnt = other.call<&Kitchen::burn>();
  EXPECT_TRUE(eventually([] { return Kitchen::waiting == 1; }));
  const SpawnedActors others{interface_version<Kitchen>(),
                             "other",
                             MeshShape(),
                             {},
                             {std::make_shared<const ActorAddress>(other.address())}};
  auto closed = cooks.call<&Kitchen::close>(system_.handle_of<Kitchen>(others));
  EXPECT_TRUE(eventually([&] {
    const auto calls = system_.waiting_calls();
    return std::ranges::any_of(calls,
                               [](const WaitingCall& call) { return call.method == "stop"; });
  }));
  cooks.stop().get();
  EXPECT_EQ(error_of([&] { closed.get(); }).code(), ErrorCode::kCancelled);
  Kitchen::released = true;
  burnt.get();
}

TEST_P(EndpointOptions, TheDeadlineOfAMethodReplacesTheSystemsUnlessTheCallSetsOne) {
  const auto cooks = kitchen();
  EXPECT_GT(cooks.call<&Kitchen::seconds_left>().get(), 3000);
  EXPECT_LE(cooks.within(100s).call<&Kitchen::seconds_left>().get(), 100);
  EXPECT_LE(cooks.call<&Kitchen::seconds_by_default>().get(), 30);
  EXPECT_EQ(cooks.call<&Kitchen::seconds_for_ever>().get(), -1);
  cooks.tell<&Kitchen::note_seconds>();
  EXPECT_TRUE(eventually([] { return Kitchen::noted > 3000; }));
}

/// Class with the methods of Kitchen's interface without options, apart from urgency.
template <typename... Options>
struct Bare {
  explicit Bare(Context&) {}
  int run() { return 1; }
  static constexpr auto endpoints = interface<"test.bare", 1>(on<&Bare::run>("run", Options()...));
};

TEST(EndpointOptionsOfInterfaces, OnlyUrgencyChangesTheWireContract) {
  EXPECT_EQ(interface_fingerprint<Bare<>>(), interface_fingerprint<Bare<Blocking>>());
  EXPECT_EQ(interface_fingerprint<Bare<>>(), interface_fingerprint<Bare<Concurrent>>());
  EXPECT_EQ(interface_fingerprint<Bare<>>(), interface_fingerprint<Bare<Idempotent>>());
  EXPECT_NE(interface_fingerprint<Bare<>>(), interface_fingerprint<Bare<Urgent>>());
}

}  // namespace
}  // namespace weft::actors
