// Handles of actors that their owner restarts after a death.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
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
using test::throws_error;
using ::testing::HasSubstr;

/// Actor that says in which process it is, at once or when it is let go.
class Service final {
 public:
  explicit Service(Context& context) : context_(context), never_(context.make_wakeup()) {}
  std::string where() const { return context_.self().process.name; }
  /// Never ends in a process whose name contains "old".
  task<std::string> wait_in_old() {
    ++waiting;
    if (where().find("old") != std::string::npos) co_await never_.wait();
    co_return where();
  }
  task<std::string> wait_once() {
    ++waiting;
    if (where().find("old") != std::string::npos) co_await never_.wait();
    co_return where();
  }
  task<std::string> ask(ActorRef<Service> other) {
    std::string answer = co_await other.call<&Service::where>();
    co_return answer;
  }
  /// Fails as a request of a head that was replaced does.
  void be_stale() {
    ++waiting;
    throw Error(ErrorCode::kStaleEpoch, "a newer head exists");
  }
  void add(int number) { numbers.push_back(number); }
  std::vector<int> added() const { return numbers; }
  static inline std::atomic<int> waiting{0};

  static constexpr auto endpoints = interface<"test.service", 1>(
      on<&Service::where>("where"), on<&Service::wait_in_old>("wait_in_old", idempotent),
      on<&Service::wait_once>("wait_once"), on<&Service::ask>("ask"),
      on<&Service::be_stale>("be_stale", idempotent), on<&Service::add>("add"),
      on<&Service::added>("added"));

 private:
  Context& context_;
  Wakeup never_;
  std::vector<int> numbers;
};

std::unique_ptr<System> worker(const std::string& name) {
  auto system = std::make_unique<System>(test::system_options(name));
  system->listen({"127.0.0.1", 0});
  (void)system->host<Service>("service");
  return system;
}

/// Owner of a service in the process "old", and another process that calls the service.
struct Supervised {
  System owner{test::system_options("owner")};
  std::unique_ptr<System> old = worker("old"), next = worker("next"), other = worker("other");
  ActorAddress address;
  ActorRef<Service> service, caller;

  Supervised() {
    Service::waiting = 0;
    owner.listen({"127.0.0.1", 0});
    address = address_in(*old);
    owner.supervise(address);
    service = owner.ref<Service>(address);
    caller = owner.named<Service>(owner.connect(other->self().address), "service");
    EXPECT_EQ(service.call<&Service::where>().get(), "old");
    EXPECT_EQ(caller.call<&Service::ask>(service).get(), "old");
  }
  /// Ends the old process. Returns when the others know.
  void end_old() {
    const ProcessId id = old->self().id;
    old.reset();
    const auto forgotten = [&](const System& system) {
      return std::ranges::none_of(system.peers(),
                                  [&](const ProcessRef& peer) { return peer.id == id; });
    };
    EXPECT_TRUE(eventually([&] { return forgotten(owner) && forgotten(*other); }));
  }
  ActorAddress address_in(const System& process) const {
    return {process.self(), actor_id_of("service"), "service", owner.self()};
  }
};

TEST(RestartedActors, CallsOfTheOwnerWaitForTheNewIncarnation) {
  Supervised s;
  s.end_old();
  auto first = s.service.call<&Service::where>();
  auto second = s.service.call<&Service::where>();
  EXPECT_FALSE(first.wait_for(50ms));
  s.owner.restart_ends(s.address, s.address_in(*s.next));
  EXPECT_EQ(first.get(), "next");
  EXPECT_EQ(second.get(), "next");
  EXPECT_EQ(s.service.call<&Service::where>().get(), "next") << "the handle follows";
}

/// Owner of an actor in the process "old", which lives on while the actor is restarted there.
struct RestartedInPlace {
  System owner{test::system_options("owner")};
  std::unique_ptr<System> old, other = worker("other");
  SpawnedActors actors;
  ActorRef<Service> service, caller;

  RestartedInPlace() {
    Service::waiting = 0;
    owner.listen({"127.0.0.1", 0});
    old = std::make_unique<System>(test::system_options("old"));
    old->provide<Service>();
    old->listen({"127.0.0.1", 0});
    actors = owner.spawn_actors({interface_version<Service>(),
                                 "service",
                                 MeshShape(),
                                 encode(std::tuple<>()),
                                 {},
                                 ActorThread::kShared},
                                {owner.connect(old->self().address)});
    ActorAddress owned = *actors.addresses[0];
    owned.owner = owner.self();
    actors.addresses[0] = std::make_shared<const ActorAddress>(owned);
    owner.supervise(owned);
    service = owner.ref<Service>(owned);
    caller = owner.named<Service>(owner.connect(other->self().address), "service");
  }
  void restart() {
    const ActorAddress before = *actors.addresses[0];
    owner.restart_begins(before);
    actors = owner.spawn_actors(actors, {before.process}, {2, 1, "an incident"}, {0});
    EXPECT_EQ(actors.addresses[0]->process.id, before.process.id);
    EXPECT_NE(actors.addresses[0]->actor, before.actor);
    owner.restart_ends(before, *actors.addresses[0]);
  }
};

TEST(RestartedActors, InAProcessThatLivesCallsThatHaveNotStartedGoToTheNewIncarnation) {
  RestartedInPlace r;
  r.service.call<&Service::add>(1).get();
  auto started = r.service.call<&Service::wait_once>();
  EXPECT_TRUE(eventually([] { return Service::waiting == 1; }));
  // More than the mailbox takes at once: some wait in the process of the caller.
  std::vector<Future<void>> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(r.service.call<&Service::add>(i));
  auto of_other = r.caller.call<&Service::ask>(r.service);
  r.restart();
  EXPECT_THAT([&] { started.get(); },
              throws_error(ErrorCode::kStaleEpoch, "was stopped for a restart"));
  for (auto& call : waiting) call.get();
  EXPECT_EQ(of_other.get(), "old");
  const std::vector<int> added = r.service.call<&Service::added>().get();
  ASSERT_EQ(added.size(), 100u) << "the state before the restart is lost, and no call";
  EXPECT_TRUE(std::ranges::is_sorted(added)) << "calls keep their order";
}

TEST(RestartedActors, InAProcessThatLivesLateCallsOfOthersFollow) {
  RestartedInPlace r;
  EXPECT_EQ(r.caller.call<&Service::ask>(r.service).get(), "old");
  for (int i = 0; i < 3; ++i) {
    r.restart();
    EXPECT_EQ(r.caller.call<&Service::ask>(r.service).get(), "old") << "restart " << i;
  }
}

TEST(RestartedActors, InAProcessThatLivesAStartedCallIsRepeatedIfItIsIdempotent) {
  RestartedInPlace r;
  auto started = r.service.call<&Service::wait_in_old>();
  EXPECT_TRUE(eventually([] { return Service::waiting == 1; }));
  r.restart();
  EXPECT_TRUE(eventually([] { return Service::waiting == 2; })) << "in the new incarnation";
  started.cancel();
}

TEST(RestartedActors, AnErrorOfAHandlerIsNoRestart) {
  RestartedInPlace r;
  EXPECT_THAT([&] { r.service.call<&Service::be_stale>().get(); },
              throws_error(ErrorCode::kStaleEpoch, "a newer head exists"));
  EXPECT_EQ(Service::waiting, 1) << "the handler ran once";
}

TEST(RestartedActors, LostActorsOfOneProcessAreRestartedEachForItself) {
  RestartedInPlace r;
  const ProcessRef process = r.actors.addresses[0]->process;
  SpawnedActors wanted = r.actors;
  wanted.name = "team";
  wanted.shape = MeshShape{{"unit", 2}};
  wanted.addresses.clear();
  SpawnedActors lost = r.owner.adopt_actors(wanted, {process, process});
  // Constructed late: the owner does not know of them.
  const SpawnedActors late = r.owner.spawn_actors(wanted, {process, process});
  for (auto& actor : lost.addresses) {
    EXPECT_TRUE(is_lost_actor(actor->actor));
    ActorAddress owned = *actor;
    owned.owner = r.owner.self();
    actor = std::make_shared<const ActorAddress>(owned);
    r.owner.supervise(owned);
    r.owner.restart_begins(owned);
  }
  const auto team = r.owner.handle_of<Service>(lost);
  auto first = team.rank(0).call<&Service::add>(1), second = team.rank(1).call<&Service::add>(2);
  const SpawnedActors now =
      r.owner.spawn_actors(lost, {process, process}, {2, 1, "an incident"}, {0, 1});
  for (std::size_t rank = 0; rank < 2; ++rank)
    r.owner.restart_ends(*lost.addresses[rank], *now.addresses[rank]);
  first.get();
  second.get();
  EXPECT_EQ(team.rank(0).call<&Service::added>().get(), std::vector<int>{1});
  EXPECT_EQ(team.rank(1).call<&Service::added>().get(), std::vector<int>{2});
  for (const auto& actor : late.addresses)
    EXPECT_THAT([&] { (void)r.owner.ref<Service>(*actor).call<&Service::where>().get(); },
                throws_error(ErrorCode::kStaleEpoch, "is being restarted"));
}

TEST(RestartedActors, TheActorsOfAMeshAreStoppedInAProcessThatLives) {
  RestartedInPlace r;
  const ProcessRef process = r.actors.addresses[0]->process;
  r.owner.end_supervision(*r.actors.addresses[0], Error(ErrorCode::kNotFound, "is stopped"));
  r.owner.stop_actors_of(process, "another", 0, 5s)->wait_until(TimePoint::max());
  EXPECT_EQ(r.service.call<&Service::where>().get(), "old");
  const auto stopped = r.owner.stop_actors_of(process, "service", 1, 5s);
  stopped->wait_until(TimePoint::max());
  EXPECT_FALSE(stopped->error());
  EXPECT_THAT([&] { r.service.call<&Service::where>().get(); },
              throws_error(ErrorCode::kNotFound, ""));
}

TEST(RestartedActors, CallsOfOtherProcessesAskTheOwner) {
  Supervised s;
  s.end_old();
  auto answer = s.caller.call<&Service::ask>(s.service);
  EXPECT_FALSE(answer.wait_for(100ms));
  s.owner.restart_ends(s.address, s.address_in(*s.next));
  EXPECT_EQ(answer.get(), "next");
  EXPECT_EQ(s.caller.call<&Service::ask>(s.service).get(), "next");
}

TEST(RestartedActors, ARestartThatIsOverWhenTheDeathIsNoticedIsFollowedToo) {
  Supervised s;
  s.owner.restart_begins(s.address);
  s.end_old();
  s.owner.restart_ends(s.address, s.address_in(*s.next));
  EXPECT_EQ(s.caller.call<&Service::ask>(s.service).get(), "next");
  // The next restart, of the second incarnation.
  auto third = worker("third");
  const ActorAddress second = s.address_in(*s.next);
  s.next.reset();
  auto answer = s.caller.call<&Service::ask>(s.service);
  s.owner.restart_ends(second, s.address_in(*third));
  EXPECT_EQ(answer.get(), "third");
  EXPECT_EQ(s.service.call<&Service::where>().get(), "third");
}

TEST(RestartedActors, OnlyIdempotentCallsThatMayHaveRunAreRepeated) {
  Supervised s;
  auto repeated = s.service.call<&Service::wait_in_old>();
  ASSERT_TRUE(eventually([] { return Service::waiting == 1; }));
  s.owner.declare_dead(s.old->self().id, Error(ErrorCode::kPeerDied, "old died: SIGKILL"));
  EXPECT_FALSE(repeated.wait_for(50ms));
  s.owner.restart_ends(s.address, s.address_in(*s.next));
  EXPECT_EQ(repeated.get(), "next");
  EXPECT_EQ(Service::waiting, 2) << "it was repeated once";
}

TEST(RestartedActors, AnOrdinaryCallThatMayHaveRunFailsAndSaysSo) {
  Supervised s;
  auto once = s.service.call<&Service::wait_once>();
  ASSERT_TRUE(eventually([] { return Service::waiting == 1; }));
  s.owner.declare_dead(s.old->self().id, Error(ErrorCode::kPeerDied, "old died: SIGKILL"));
  EXPECT_THAT([&] { (void)once.get(); },
              throws_error(ErrorCode::kPeerDied, "whether it ran is unknown"));
  s.owner.restart_ends(s.address, s.address_in(*s.next));
  EXPECT_EQ(Service::waiting, 1);
}

TEST(RestartedActors, WaitingCallsKeepTheirDeadlinesAndCanBeCancelled) {
  Supervised s;
  s.end_old();
  auto late = s.service.within(30ms).call<&Service::where>();
  EXPECT_THAT([&] { (void)late.get(); },
              throws_error(ErrorCode::kDeadlineExceeded, "had not been sent"));
  auto cancelled = s.service.call<&Service::where>();
  cancelled.cancel();
  EXPECT_THAT([&] { (void)cancelled.get(); }, throws_error(ErrorCode::kCancelled, "was cancelled"));
  s.owner.restart_ends(s.address, s.address_in(*s.next));
  EXPECT_EQ(s.service.call<&Service::where>().get(), "next");
}

TEST(RestartedActors, CallsFailWithTheReasonWhenNoRestartIsLeft) {
  Supervised s;
  s.end_old();
  auto waiting = s.service.call<&Service::where>();
  auto elsewhere = s.caller.call<&Service::ask>(s.service);
  s.owner.restart_ends(s.address, Error(ErrorCode::kPeerDied, "service died 3 times in 10 min"));
  EXPECT_THAT([&] { (void)waiting.get(); },
              throws_error(ErrorCode::kPeerDied, "died 3 times in 10 min"));
  EXPECT_THAT([&] { (void)elsewhere.get(); },
              throws_error(ErrorCode::kPeerDied, "died 3 times in 10 min"));
  EXPECT_THAT([&] { (void)s.service.call<&Service::where>().get(); },
              throws_error(ErrorCode::kPeerDied, "died 3 times in 10 min"));
}

TEST(RestartedActors, CallsAfterTheEndOfTheSupervisionFail) {
  Supervised s;
  s.owner.end_supervision(s.address, Error(ErrorCode::kNotFound, "service was stopped"));
  s.end_old();
  EXPECT_THAT([&] { (void)s.service.call<&Service::where>().get(); },
              throws_error(ErrorCode::kPeerDied, "shut down"));
  EXPECT_THAT([&] { (void)s.caller.call<&Service::ask>(s.service).get(); },
              throws_error(ErrorCode::kNotFound, "service has ended"));
}

TEST(RestartedActors, OneWayCallsWaitInOrderToo) {
  Supervised s;
  s.end_old();
  // Begins the restart, which one-way calls alone do not notice.
  s.owner.restart_begins(s.address);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(s.service.tell<&Service::add>(i));
  auto added = s.service.call<&Service::added>();
  s.owner.restart_ends(s.address, s.address_in(*s.next));
  EXPECT_EQ(added.get(), (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(RestartedActors, ACallerThatLosesItsConnectionOnlyTriesAgain) {
  Supervised s;
  // The owner still sees the service: it says that the address is right.
  s.other->fail_calls(s.old->self().id, Error(ErrorCode::kUnavailable, "a test"));
  EXPECT_EQ(s.caller.call<&Service::ask>(s.service).get(), "old");
}

TEST(RestartedActors, WithoutTheirOwnerAreLost) {
  auto owner = std::make_unique<System>(test::system_options("owner"));
  auto old = worker("old"), other = worker("other");
  owner->listen({"127.0.0.1", 0});
  const ActorAddress address{old->self(), actor_id_of("service"), "service", owner->self()};
  owner->supervise(address);
  System driver(test::system_options("driver"));
  const auto caller = driver.named<Service>(driver.connect(other->self().address), "service");
  const ActorRef<Service> service = driver.ref<Service>(address);
  EXPECT_EQ(caller.call<&Service::ask>(service).get(), "old");
  old.reset();
  owner.reset();
  const Error error = error_of([&] { (void)caller.call<&Service::ask>(service).get(); });
  EXPECT_THAT(error.message(), HasSubstr("its owner owner does not say where it is now"));
}

}  // namespace
}  // namespace weft::actors
