#include "actors/system/system.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;

struct Note {
  int number = 0;
  std::string text;
  static constexpr auto fields = weft::fields(&Note::number, &Note::text);
  friend bool operator==(const Note&, const Note&) = default;
};

/// Actor with a handler of every kind.
class Clerk final {
 public:
  using Arguments = std::tuple<std::string>;
  Clerk(Context& context, std::string greeting)
      : context_(context), greeting_(std::move(greeting)), gate_(context.make_wakeup()) {
    if (greeting_ == "refuse") throw Error(ErrorCode::kInvalidArgument, "no such greeting");
  }

  std::string greet(const std::string& name) const { return greeting_ + " " + name; }
  void write(Note note) { notes_.push_back(std::move(note)); }
  std::vector<Note> read() const { return notes_; }
  std::int64_t rank() const { return context_.place().rank; }
  void fail(std::string message) const {
    throw Error(ErrorCode::kNotFound, std::move(message)).at("shelf 3");
  }
  task<int> wait_at_gate() {
    waiting_ = true;
    co_await gate_.wait();
    co_return 7;
  }
  void open_gate() { gate_.notify(); }
  bool is_waiting() const { return waiting_; }
  task<bool> nap(std::chrono::milliseconds time) {
    co_await context_.sleep(time);
    co_return true;
  }
  std::string caller() const { return context_.caller().name; }
  /// Blocks the actor's thread until `released` is set or the call is cancelled.
  bool hold() {
    holding = true;
    while (!released && !context_.stop_token().stop_requested()) std::this_thread::sleep_for(1ms);
    holding = false;
    return released;
  }
  /// Blocks the actor's thread until `released` is set; ignores the stop token.
  void stay() {
    holding = true;
    while (!released) std::this_thread::sleep_for(1ms);
    holding = false;
  }
  static inline std::atomic<bool> holding{false};
  static inline std::atomic<bool> released{false};
  ~Clerk() { ++destroyed; }
  static inline std::atomic<int> destroyed{0};
  task<std::string> ask(ActorAddress colleague, std::string name) {
    const auto other = context_.system().ref<Clerk>(colleague);
    const std::string first = co_await other.call<&Clerk::greet>(name);
    const std::string second = co_await other.call<&Clerk::greet>(first);
    co_return second;
  }
  task<> ask_for_trouble(ActorAddress colleague) {
    co_await context_.system().ref<Clerk>(colleague).call<&Clerk::fail>("not here");
  }
  std::uint64_t measure(std::vector<std::byte> bytes) const { return bytes.size(); }
  std::vector<std::byte> produce(std::uint64_t size) const {
    return std::vector<std::byte>(size, std::byte{7});
  }

  static constexpr auto endpoints = interface<"test.clerk", 1>(
      on<&Clerk::greet>("greet"), on<&Clerk::write>("write"), on<&Clerk::read>("read"),
      on<&Clerk::rank>("rank"), on<&Clerk::fail>("fail"), on<&Clerk::wait_at_gate>("wait_at_gate"),
      on<&Clerk::open_gate>("open_gate", urgent), on<&Clerk::is_waiting>("is_waiting", urgent),
      on<&Clerk::nap>("nap"), on<&Clerk::caller>("caller"), on<&Clerk::measure>("measure"),
      on<&Clerk::produce>("produce"), on<&Clerk::hold>("hold"), on<&Clerk::stay>("stay"),
      on<&Clerk::ask>("ask"), on<&Clerk::ask_for_trouble>("ask_for_trouble"));

 private:
  Context& context_;
  std::string greeting_;
  std::vector<Note> notes_;
  Wakeup gate_;
  bool waiting_ = false;
};

/// Driver and two workers, each a System of its own, connected over real sockets.
struct Cluster {
  System driver{test::system_options("driver")};
  System first{test::system_options("worker0")};
  System second{test::system_options("worker1")};
  ProcessRef first_ref, second_ref;

  Cluster() {
    first.provide<Clerk>();
    second.provide<Clerk>();
    first_ref = driver.connect(first.listen({"127.0.0.1", 0}));
    second_ref = driver.connect(second.listen({"127.0.0.1", 0}));
  }
};

TEST(System, AHostedActorAnswersItsOwnProcess) {
  System system(test::system_options("alone"));
  const auto clerk = system.host<Clerk>("clerk", "hello");
  EXPECT_EQ(clerk.call<&Clerk::greet>("you").get(), "hello you");
  EXPECT_EQ(clerk.call<&Clerk::caller>().get(), "alone");
}

TEST(System, AnActorIsCalledByNameFromAnotherProcess) {
  Cluster cluster;
  (void)cluster.first.host<Clerk>("clerk", "good day");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  EXPECT_EQ(clerk.call<&Clerk::greet>("you").get(), "good day you");
  EXPECT_EQ(clerk.call<&Clerk::caller>().get(), "driver");
}

TEST(System, AMeshOfActorsIsCalledAsOneAndInSlices) {
  Cluster cluster;
  const auto mesh = cluster.driver.spawn_mesh<Clerk>(
      "front", MeshShape{{"data", 2}, {"tensor", 2}},
      {cluster.first_ref, cluster.first_ref, cluster.second_ref, cluster.second_ref}, "hi");
  EXPECT_EQ(mesh.call<&Clerk::rank>().get(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(mesh.slice({{"tensor", 1}}).call<&Clerk::rank>().get(),
            (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(mesh.slice({{"data", -1, 2}}).call<&Clerk::rank>().get(),
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(mesh.slice({{"data", 1}, {"tensor", 0}}).call_one<&Clerk::rank>().get(), 2);
  EXPECT_EQ(mesh.at({0, 1}).call<&Clerk::rank>().get(), 1);
  EXPECT_EQ(error_of([&] { (void)mesh.call_one<&Clerk::rank>(); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(mesh.scatter<&Clerk::greet>(std::vector<std::string>{"a", "b", "c", "d"}).get()[2],
            "hi c");
  mesh.call<&Clerk::write>(Note{1, "all"}).get();
  EXPECT_EQ(mesh.at({1, 1}).call<&Clerk::read>().get(), (std::vector<Note>{{1, "all"}}));
}

TEST(System, CallsOfOneSenderArriveInOrderWhetherHeldSmallOrLarge) {
  Cluster cluster;
  (void)cluster.first.host<Clerk>("clerk", "x");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  constexpr int kNotes = 5000;
  for (int i = 0; i < kNotes; ++i)
    clerk.tell<&Clerk::write>(Note{i, std::string(i % 100 == 0 ? 20000 : 3, 'x')});
  const auto notes = clerk.call<&Clerk::read>().get();
  ASSERT_EQ(notes.size(), static_cast<std::size_t>(kNotes));
  for (int i = 0; i < kNotes; ++i) ASSERT_EQ(notes[static_cast<std::size_t>(i)].number, i);
}

TEST(System, ManyThreadsCallAtOnceEachInItsOwnOrder) {
  Cluster cluster;
  (void)cluster.first.host<Clerk>("clerk", "x");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 4; ++t)
      callers.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i)
          if (i % 2 == 0) clerk.call<&Clerk::write>(Note{i, std::to_string(t)}).get();
          else clerk.tell<&Clerk::write>(Note{i, std::to_string(t)});
      });
  }
  std::map<std::string, int> next;
  for (const Note& note : clerk.call<&Clerk::read>().get())
    EXPECT_EQ(note.number, next[note.text]++);
  EXPECT_EQ(next.size(), 4u);
}

TEST(System, ExceptionsArriveAsTheSameErrorWithTheirOrigin) {
  Cluster cluster;
  const auto mesh = cluster.driver.spawn_mesh<Clerk>("front", MeshShape{{"data", 2}},
                                                     {cluster.first_ref, cluster.second_ref}, "hi");
  const Error error = error_of([&] { mesh.at({1}).call<&Clerk::fail>("no such book").get(); });
  EXPECT_EQ(error, Error(ErrorCode::kNotFound, "no such book")
                       .at("shelf 3")
                       .from("worker1", "front[data=1]")
                       .with(CallProgress::kFailed));
  EXPECT_EQ(error_of([&] { mesh.call<&Clerk::fail>("all fail").get(); }).message(), "all fail");
  const auto outcomes = mesh.call_collect<&Clerk::fail>("each fails").get();
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].error().actor(), "front[data=0]");
  EXPECT_EQ(outcomes[1].error().actor(), "front[data=1]");
}

TEST(System, HandlersAwaitOtherActorsAndTheirErrorsPassThrough) {
  Cluster cluster;
  const auto mesh = cluster.driver.spawn_mesh<Clerk>("front", MeshShape{{"data", 2}},
                                                     {cluster.first_ref, cluster.second_ref}, "hi");
  const ActorAddress other = mesh.at({1}).address();
  EXPECT_EQ(mesh.at({0}).call<&Clerk::ask>(other, "you").get(), "hi hi you");
  EXPECT_EQ(error_of([&] { mesh.at({0}).call<&Clerk::ask_for_trouble>(other).get(); }).actor(),
            "front[data=1]");
}

TEST(System, UrgentCallsGetThroughWhileAHandlerIsSuspendedAndOthersWait) {
  Cluster cluster;
  (void)cluster.first.host<Clerk>("clerk", "hi");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  auto waiting = clerk.call<&Clerk::wait_at_gate>();
  auto later = clerk.call<&Clerk::greet>("you");
  EXPECT_TRUE(eventually([&] { return clerk.call<&Clerk::is_waiting>().get(); }));
  EXPECT_FALSE(waiting.ready());
  EXPECT_FALSE(later.ready());
  clerk.call<&Clerk::open_gate>().get();
  EXPECT_EQ(waiting.get(), 7);
  EXPECT_EQ(later.get(), "hi you");
}

TEST(System, SleepingHandlersWakeUpByThemselves) {
  System system(test::system_options("alone"));
  const auto clerk = system.host<Clerk>("clerk", "hi");
  EXPECT_TRUE(clerk.call<&Clerk::nap>(5ms).get());
}

TEST(System, ACallEndsByItsDeadlineAndTheHandlerSeesItsStopToken) {
  Cluster cluster;
  Clerk::released = false;
  (void)cluster.first.host<Clerk>("clerk", "hi");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  const Error error = error_of([&] { clerk.within(50ms).call<&Clerk::hold>().get(); });
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  for (const char* part :
       {"'hold'", "clerk", "worker0", "had been sent; whether it ran is unknown"})
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  EXPECT_EQ(clerk.call<&Clerk::greet>("you").get(), "hi you");  // hold() was stopped
  EXPECT_EQ(error_of([&] { clerk.within(50ms).call<&Clerk::wait_at_gate>().get(); }).code(),
            ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(clerk.call<&Clerk::greet>("you").get(), "hi you");  // wait_at_gate() was cancelled too
  EXPECT_EQ(error_of([&] { clerk.call<&Clerk::wait_at_gate>().get(20ms); }).code(),
            ErrorCode::kDeadlineExceeded);
}

TEST(System, ACancelledCallEndsAtOnceAndItsHandlerStops) {
  Cluster cluster;
  Clerk::released = false;
  (void)cluster.first.host<Clerk>("clerk", "hi");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  auto held = clerk.call<&Clerk::hold>();
  auto waiting = clerk.call<&Clerk::greet>("you");
  EXPECT_TRUE(eventually([] { return Clerk::holding.load(); }));
  waiting.cancel();
  EXPECT_EQ(error_of([&] { (void)waiting.get(); }).code(), ErrorCode::kCancelled);
  held.cancel();
  EXPECT_EQ(error_of([&] { (void)held.get(); }).code(), ErrorCode::kCancelled);
  EXPECT_TRUE(eventually([] { return !Clerk::holding.load(); }));
}

TEST(System, ASystemThatShutsDownRefusesCalls) {
  System caller(test::system_options("caller"));
  auto system = std::make_optional<System>(test::system_options("ending"));
  const ProcessRef there = caller.connect(system->listen({"127.0.0.1", 0}));
  Clerk::released = false;
  (void)system->host<Clerk>("busy", "hi");
  (void)system->host<Clerk>("idle", "hi");
  auto stays = caller.named<Clerk>(there, "busy").call<&Clerk::stay>();
  const auto idle = caller.named<Clerk>(there, "idle");
  EXPECT_EQ(idle.call<&Clerk::greet>("you").get(), "hi you");
  EXPECT_TRUE(eventually([] { return Clerk::holding.load(); }));
  const auto ends = std::async(std::launch::async, [&] { system.reset(); });
  std::optional<Error> refused;
  EXPECT_TRUE(eventually([&] {
    try {
      idle.call<&Clerk::greet>("you").get();
    } catch (const Error& error) {
      // A call that waited in the mailbox during the shutdown is cancelled.
      if (error.code() != ErrorCode::kCancelled) refused = error;
    }
    return refused.has_value();
  }));
  Clerk::released = true;
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), ErrorCode::kUnavailable);
  EXPECT_NE(refused->message().find("ending is shutting down; the call was not started"),
            std::string::npos)
      << refused->message();
}

// Cancels a call while it is held back, in flight, queued, taken or running.
TEST(System, ACallCancelledAtOnceNeverGoesOn) {
  Cluster cluster;
  (void)cluster.first.host<Clerk>("clerk", "hi");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  for (int round = 0; round < 5000; ++round) {
    auto waiting = clerk.call<&Clerk::wait_at_gate>();
    if (round % 2 == 1) (void)clerk.call<&Clerk::is_waiting>().get();
    waiting.cancel();
    ASSERT_EQ(clerk.within(10s).call<&Clerk::greet>("you").get(), "hi you") << "round " << round;
  }
}

TEST(System, ACancelledCallCancelsTheCallsThatItsHandlerAwaits) {
  Cluster cluster;
  Clerk::released = false;
  const auto mesh = cluster.driver.spawn_mesh<Clerk>("front", MeshShape{{"data", 2}},
                                                     {cluster.first_ref, cluster.second_ref}, "hi");
  auto held = mesh.at({1}).call<&Clerk::hold>();
  auto asking = mesh.at({0}).call<&Clerk::ask>(mesh.at({1}).address(), "you");
  EXPECT_TRUE(eventually([] { return Clerk::holding.load(); }));
  asking.cancel();
  // The actor is free again, although the actor at data=1 still runs hold().
  EXPECT_EQ(mesh.at({0}).call<&Clerk::greet>("you").get(), "hi you");
  held.cancel();
}

TEST(System, AStuckHandlerBoundsTheMemoryOfItsCallers) {
  Cluster cluster;
  Clerk::released = false;
  (void)cluster.first.host<Clerk>("clerk", "hi");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  auto held = clerk.call<&Clerk::hold>();
  EXPECT_TRUE(eventually([] { return Clerk::holding.load(); }));
  std::atomic<int> sent{0};
  {
    std::jthread flood([&] {
      for (int i = 0; i < 5000; ++i) {
        clerk.tell<&Clerk::write>(Note{i, std::string(100, 'x')});
        ++sent;
      }
    });
    // At most the calls that the window admits and those that the caller's route holds back.
    EXPECT_TRUE(eventually(
        [&] { return sent == static_cast<int>(MailboxLimits().messages + kMaxHeldCalls); }));
    std::this_thread::sleep_for(50ms);
    EXPECT_LE(sent, static_cast<int>(MailboxLimits().messages + 1 + kMaxHeldCalls));
    Clerk::released = true;
  }
  EXPECT_TRUE(held.get());
  EXPECT_EQ(clerk.call<&Clerk::read>().get().size(), 5000u);
}

TEST(System, MessagesAboveOneMebibyteTravelInChunksAndAboveTheLimitAreRefused) {
  Cluster cluster;
  (void)cluster.first.host<Clerk>("clerk", "hi");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  for (const std::size_t size :
       {std::size_t{1} << 20, (std::size_t{3} << 20) + 5, std::size_t{40} << 20}) {
    EXPECT_EQ(clerk.call<&Clerk::measure>(std::vector<std::byte>(size)).get(), size);
    EXPECT_EQ(clerk.call<&Clerk::produce>(size).get().size(), size);
  }
  const Error error = error_of(
      [&] { (void)clerk.call<&Clerk::measure>(std::vector<std::byte>(std::size_t{65} << 20)); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message().find("64 MiB"), std::string::npos) << error.message();
  EXPECT_EQ(error.progress(), CallProgress::kNotSent);
  const Error lost =
      error_of([&] { (void)clerk.call<&Clerk::produce>(std::size_t{65} << 20).get(); });
  EXPECT_EQ(lost.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(lost.progress(), CallProgress::kReplyLost);
  EXPECT_EQ(clerk.call<&Clerk::greet>("you").get(), "hi you");
}

TEST(System, MessagesAboutAsLongAsAFrameArriveWhole) {
  Cluster cluster;
  (void)cluster.first.host<Clerk>("clerk", "hi");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  // Steps below 8 bytes: each message has one frame, fills it with padding, or needs a second one.
  for (std::size_t size = kMaxFrameBody - 160; size < kMaxFrameBody; size += 5) {
    EXPECT_EQ(clerk.call<&Clerk::measure>(std::vector<std::byte>(size)).get(), size);
    EXPECT_EQ(clerk.call<&Clerk::produce>(size).get().size(), size);
  }
}

TEST(System, ADestroyedMeshStopsItsActors) {
  Cluster cluster;
  Clerk::destroyed = 0;
  std::optional<MeshRef<Clerk>> left;
  {
    const auto mesh = cluster.driver.spawn_mesh<Clerk>(
        "front", MeshShape{{"data", 3}}, {cluster.first_ref, cluster.first_ref, cluster.second_ref},
        "hi");
    left = mesh.ref();
    (void)mesh.at({0}).call<&Clerk::wait_at_gate>();
  }
  EXPECT_EQ(Clerk::destroyed, 3);
  const Error error = error_of([&] { (void)left->at({1}).call<&Clerk::rank>().get(); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
}

TEST(System, AnActorIsStoppedByItsOwnerOnly) {
  Cluster cluster;
  Clerk::destroyed = 0;
  {
    const auto mesh = cluster.driver.spawn_mesh<Clerk>("front", MeshShape{{"data", 1}},
                                                       {cluster.first_ref}, "hi");
    const ActorRef<Clerk> of_other = cluster.second.ref<Clerk>(mesh.ref().addresses().at(0));
    const Error error = error_of([&] { of_other.stop().get(); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(error.message(), "front[data=0] is stopped by its owner only, and worker1 is not it");
    EXPECT_EQ(Clerk::destroyed, 0);
    EXPECT_EQ(of_other.call<&Clerk::rank>().get(), 0);
  }
  EXPECT_EQ(Clerk::destroyed, 1);
  // An actor that a process hosts itself is its own.
  const auto own = cluster.first.host<Clerk>("alone", "hi");
  const auto of_driver = cluster.driver.named<Clerk>(cluster.first_ref, "alone");
  EXPECT_EQ(error_of([&] { of_driver.stop().get(); }).code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(of_driver.call<&Clerk::rank>().get(), 0);
  own.stop().get();
  of_driver.stop().get();  // It has ended already.
}

TEST(System, TheActorsOfALostOwnerAreStopped) {
  System worker(test::system_options("worker0"));
  worker.provide<Clerk>();
  const Address at = worker.listen({"127.0.0.1", 0});
  Clerk::destroyed = 0;
  {
    System driver(test::system_options("driver"));
    (void)driver
        .spawn_mesh<Clerk>("front", MeshShape{{"data", 2}},
                           std::vector<ProcessRef>(2, driver.connect(at)), "hi")
        .ref();
    auto mesh = driver.spawn_mesh<Clerk>("back", MeshShape{{"data", 2}},
                                         std::vector<ProcessRef>(2, driver.connect(at)), "hi");
    (void)std::move(mesh).detach();
    EXPECT_EQ(Clerk::destroyed, 2);
  }
  EXPECT_TRUE(eventually([] { return Clerk::destroyed == 4; }));
}

TEST(System, AFailingConstructorFailsTheSpawnNamingTheRankAndLeavesNothing) {
  Cluster cluster;
  Clerk::destroyed = 0;
  const Error error = error_of([&] {
    (void)cluster.driver.spawn_mesh<Clerk>("front", MeshShape{{"data", 2}},
                                           {cluster.first_ref, cluster.second_ref}, "refuse");
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message().find("front[data=0]: no such greeting"), std::string::npos)
      << error.message();
  EXPECT_EQ(error.node(), "worker0");
}

TEST(System, ProcessesThatDoNotProvideTheClassSaySo) {
  System driver(test::system_options("driver")), worker(test::system_options("worker0"));
  const auto process = driver.connect(worker.listen({"127.0.0.1", 0}));
  const Error error =
      error_of([&] { (void)driver.spawn_mesh<Clerk>("front", MeshShape{}, {process}, "hi"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_NE(error.message().find("worker0 does not provide actors with interface 'test.clerk'"),
            std::string::npos)
      << error.message();
}

}  // namespace
}  // namespace weft::actors
