// Actors that share the threads of their process.

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <set>
#include <thread>

#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;

/// Actor that notes when two threads run it at once.
class Guest final {
 public:
  using Arguments = std::tuple<int>;
  Guest(Context& context, int number) : context_(context), gate_(context.make_wakeup()) {
    if (number < 0) throw Error(ErrorCode::kInvalidArgument, "no such guest");
    EXPECT_TRUE(on_actor_thread());
  }
  ~Guest() {
    EXPECT_TRUE(on_actor_thread());
    ++destroyed;
  }

  int add(int number) {
    EXPECT_FALSE(inside_.exchange(true)) << "two threads run one actor";
    EXPECT_EQ(current_actor(), context_.self().actor);
    EXPECT_TRUE(on_actor_thread());
    sum_ += number;
    inside_ = false;
    return sum_;
  }
  task<int> add_later(int number) {
    co_await context_.sleep(1ms);
    co_return add(number);
  }
  task<int> ask(ActorRef<Guest> other, int number) {
    int sum = co_await other.call<&Guest::add>(number);
    co_return add(sum);
  }
  task<> wait_at_gate() {
    ++waiting;
    co_await gate_.wait();
  }
  void open_gate() { gate_.notify(); }
  void block() {
    ++waiting;
    while (!released) std::this_thread::sleep_for(1ms);
  }
  void note(int number) { notes[noted++] = number; }

  static inline std::atomic<int> destroyed{0}, waiting{0}, noted{0};
  static inline std::atomic<bool> released{false};
  static inline std::array<std::atomic<int>, 1000> notes{};
  static constexpr auto endpoints = interface<"test.guest", 1>(
      on<&Guest::add>("add"), on<&Guest::add_later>("add_later"), on<&Guest::ask>("ask"),
      on<&Guest::wait_at_gate>("wait_at_gate"), on<&Guest::open_gate>("open_gate", urgent),
      on<&Guest::block>("block"), on<&Guest::note>("note"));

 private:
  Context& context_;
  Wakeup gate_;
  std::atomic<bool> inside_{false};
  int sum_ = 0;
};

struct House {
  explicit House(std::size_t threads = 2) : system(options(threads)) {
    Guest::destroyed = Guest::waiting = Guest::noted = 0;
    Guest::released = false;
  }
  static SystemOptions options(std::size_t threads) {
    SystemOptions options = test::system_options("house");
    options.actor_threads = threads;
    return options;
  }
  ActorRef<Guest> guest(int number) {
    return system.host<Guest>(ActorThread::kShared, "guest" + std::to_string(number), number);
  }
  System system;
};

TEST(SharedThreads, ManyActorsRunOnFewThreadsEachOnOneAtATime) {
  House house;
  std::vector<ActorRef<Guest>> guests;
  for (int i = 0; i < 50; ++i) guests.push_back(house.guest(i));
  std::vector<std::jthread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      std::vector<Future<int>> sums;
      for (int round = 0; round < 20; ++round)
        for (std::size_t i = 0; i < guests.size(); ++i)
          sums.push_back(round % 2 == 0 ? guests[i].call<&Guest::add>(1)
                                        : guests[i].call<&Guest::add_later>(1));
      for (auto& sum : sums) (void)sum.get();
    });
  callers.clear();
  for (const auto& guest : guests) EXPECT_EQ(guest.call<&Guest::add>(0).get(), 80);
}

TEST(SharedThreads, CallsOfOneSenderArriveInOrder) {
  House house;
  const auto guest = house.guest(0);
  for (int i = 0; i < 1000; ++i) guest.tell<&Guest::note>(i);
  (void)guest.call<&Guest::add>(0).get();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(Guest::notes[static_cast<std::size_t>(i)], i);
}

TEST(SharedThreads, SuspendedHandlersOccupyNoThread) {
  House house;
  std::vector<ActorRef<Guest>> guests;
  std::vector<Future<void>> waits;
  for (int i = 0; i < 100; ++i) {
    guests.push_back(house.guest(i));
    waits.push_back(guests.back().call<&Guest::wait_at_gate>());
  }
  EXPECT_TRUE(eventually([] { return Guest::waiting == 100; }));
  const auto other = house.guest(100);
  EXPECT_EQ(house.guest(101).call<&Guest::ask>(other, 3).get(), 3);
  for (const auto& guest : guests) guest.call<&Guest::open_gate>().get();
  for (auto& wait : waits) wait.get();
}

TEST(SharedThreads, AnActorWithALongQueueLetsOthersRun) {
  House house(1);
  const auto busy = house.guest(0), other = house.guest(1);
  auto blocked = busy.call<&Guest::block>();
  for (int i = 0; i < 500; ++i) busy.tell<&Guest::note>(0);
  other.tell<&Guest::note>(1);
  Guest::released = true;
  blocked.get();
  (void)busy.call<&Guest::add>(0).get();
  EXPECT_TRUE(eventually([] { return Guest::noted == 501; }));
  EXPECT_NE(Guest::notes[500], 1) << "the other actor had to wait for the whole queue";
}

TEST(SharedThreads, ActorsThatBlockAllThreadsDoNotStallTheOthers) {
  House house;
  std::vector<ActorRef<Guest>> guests;
  for (int i = 0; i < 7; ++i) guests.push_back(house.guest(i));
  std::vector<Future<void>> blocked;
  for (int i = 0; i < 6; ++i) blocked.push_back(guests[i].call<&Guest::block>());
  EXPECT_EQ(guests[6].call<&Guest::add>(1).get(), 1);
  Guest::released = true;
  for (auto& each : blocked) each.get();
}

TEST(SharedThreads, AConstructorThatThrowsFailsTheSpawnAndLeavesTheNameFree) {
  House house;
  const Error error = error_of([&] { house.guest(-1); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "no such guest");
  EXPECT_EQ(error.actor(), "guest-1");
  EXPECT_TRUE(eventually([&] {
    try {
      (void)house.system.host<Guest>(ActorThread::kShared, "guest-1", 1);
      return true;
    } catch (const Error& taken) {
      return taken.code() != ErrorCode::kAlreadyExists;
    }
  }));
}

TEST(SharedThreads, StopCancelsASuspendedHandlerAndDestroysTheActor) {
  House house;
  const auto guest = house.guest(0);
  auto wait = guest.call<&Guest::wait_at_gate>();
  EXPECT_TRUE(eventually([] { return Guest::waiting == 1; }));
  auto queued = guest.call<&Guest::add>(1);
  guest.stop().get();
  EXPECT_EQ(Guest::destroyed, 1);
  EXPECT_EQ(error_of([&] { wait.get(); }).code(), ErrorCode::kCancelled);
  EXPECT_EQ(error_of([&] { queued.get(); }).code(), ErrorCode::kCancelled);
  EXPECT_EQ(error_of([&] { guest.call<&Guest::add>(1).get(); }).code(), ErrorCode::kNotFound);
}

TEST(SharedThreads, StopCancelsTheCallOfTheSameProcessThatAHandlerAwaits) {
  House house;
  const auto guest = house.guest(0), other = house.guest(1);
  auto wait = other.call<&Guest::wait_at_gate>();
  auto asked = guest.call<&Guest::ask>(other, 1);
  EXPECT_TRUE(eventually([] { return Guest::waiting == 1; }));
  guest.stop().get();
  EXPECT_EQ(error_of([&] { asked.get(); }).code(), ErrorCode::kCancelled);
  other.call<&Guest::open_gate>().get();
  wait.get();
  EXPECT_EQ(other.call<&Guest::add>(0).get(), 0) << "the call was withdrawn";
}

TEST(SharedThreads, TheEndOfTheSystemDestroysActorsThatWait) {
  std::optional<House> house(std::in_place);
  for (int i = 0; i < 20; ++i) {
    const auto guest = house->guest(i);
    if (i % 2 == 0) guest.tell<&Guest::wait_at_gate>();
  }
  house.reset();
  EXPECT_EQ(Guest::destroyed, 20);
}

TEST(SharedThreads, AnotherProcessSpawnsSharedActorsAndSpawnsThemAgainAsSuch) {
  House house;
  house.system.provide<Guest>();
  System driver(test::system_options("driver"));
  const ProcessRef process = driver.connect(house.system.listen({"127.0.0.1", 0}));
  const SpawnedActors spawned = driver.spawn_actors({interface_version<Guest>(),
                                                     "guests",
                                                     MeshShape{{"guest", 40}},
                                                     encode(std::tuple<int>(1)),
                                                     {},
                                                     ActorThread::kShared},
                                                    std::vector(40, process));
  EXPECT_EQ(spawned.thread, ActorThread::kShared);
  const ActorMesh<Guest> mesh(driver.handle_of<Guest>(spawned));
  EXPECT_EQ(mesh.call<&Guest::add_later>(2).get(), std::vector<int>(40, 2));
}

}  // namespace
}  // namespace weft::actors
