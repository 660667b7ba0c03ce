// Actors that end themselves with Context::exit().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "actors/system/directory.h"
#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;
using ::testing::HasSubstr;

class ExitingActor final {
 public:
  using Arguments = std::tuple<bool>;
  ExitingActor(Context& context, bool ends_at_once)
      : context_(context), gate_(context.make_wakeup()) {
    if (ends_at_once) context_.exit("nothing to do");
  }
  ~ExitingActor() { ++destroyed; }

  int work() { return ++done_; }
  /// Ends the actor, and answers later.
  task<int> finish() {
    ++finishing;
    co_await gate_.wait();
    context_.exit("all work is done");
    EXPECT_FALSE(context_.stop_token().stop_requested());
    co_await context_.sleep(1ms);
    co_return done_;
  }
  void finish_now() { context_.exit("told to"); }
  void finish_soon() {
    timer_ = context_.after(1ms, [this] { context_.exit("time is over"); });
  }
  task<> wait() {
    ++finishing;
    co_await gate_.wait();
  }
  void open_gate() { gate_.notify(); }
  /// Ends the actor, and blocks until it is cancelled.
  void leave_and_wait_for(ActorRef<ExitingActor> other) {
    context_.exit("all work is done");
    other.within(kNoDeadline).call<&ExitingActor::wait>().get();
  }
  void leave() { context_.exit("urgently"); }

  static inline std::atomic<int> destroyed{0}, finishing{0};
  static constexpr auto endpoints = interface<"test.leaver", 1>(
      on<&ExitingActor::work>("work", idempotent), on<&ExitingActor::finish>("finish"),
      on<&ExitingActor::finish_now>("finish_now"), on<&ExitingActor::finish_soon>("finish_soon"),
      on<&ExitingActor::wait>("wait"),
      on<&ExitingActor::leave_and_wait_for>("leave_and_wait_for", blocking),
      on<&ExitingActor::open_gate>("open_gate", urgent), on<&ExitingActor::leave>("leave", urgent));

 private:
  Context& context_;
  Wakeup gate_;
  ActorTimer timer_;
  int done_ = 0;
};

class ActorExit : public ::testing::TestWithParam<ActorThread> {
 protected:
  ActorExit() {
    ExitingActor::destroyed = ExitingActor::finishing = 0;
    process_->provide<ExitingActor>();
    const ProcessRef process = owner_.connect(process_->listen({"127.0.0.1", 0}));
    spawned_ = owner_.spawn_actors({interface_version<ExitingActor>(),
                                    "units",
                                    MeshShape{{"unit", 2}},
                                    encode(std::tuple<bool>(false)),
                                    {},
                                    GetParam()},
                                   {process, process});
    for (auto& actor : spawned_.addresses) {
      ActorAddress owned = *actor;
      owned.owner = owner_.self();
      owner_.supervise(owned);
      actor = std::make_shared<const ActorAddress>(owned);
    }
    mesh_.emplace(owner_.handle_of<ExitingActor>(spawned_));
  }
  ActorRef<ExitingActor> unit(std::int64_t rank) const { return mesh_->rank(rank); }
  Error refusal(std::int64_t rank) const {
    return error_of([&] { (void)unit(rank).call<&ExitingActor::work>().get(); });
  }
  /// Ends the process. Returns when its owner has noticed.
  void end_process() {
    process_.reset();
    EXPECT_TRUE(eventually([&] { return owner_.peers().empty(); }));
  }

  System owner_{test::system_options("owner")};
  std::unique_ptr<System> process_ = std::make_unique<System>(test::system_options("process"));
  SpawnedActors spawned_;
  std::optional<ActorMesh<ExitingActor>> mesh_;
};
INSTANTIATE_TEST_SUITE_P(Threads, ActorExit,
                         ::testing::Values(ActorThread::kOwn, ActorThread::kShared),
                         [](const auto& chosen) {
                           return chosen.param == ActorThread::kOwn ? "Own" : "Shared";
                         });

TEST_P(ActorExit, TheRunningHandlerEndsAndWaitingAndLaterCallsFailWithTheReason) {
  auto finished = unit(0).call<&ExitingActor::finish>();
  EXPECT_TRUE(eventually([] { return ExitingActor::finishing == 1; }));
  auto waiting = unit(0).call<&ExitingActor::work>();
  unit(0).call<&ExitingActor::open_gate>().get();
  EXPECT_EQ(finished.get(), 0) << "it was not cancelled";
  const Error error = error_of([&] { (void)waiting.get(); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_EQ(error.message(), "units[unit=0] has ended: all work is done; the call was not started");
  EXPECT_EQ(error.node(), "process");
  EXPECT_TRUE(eventually([] { return ExitingActor::destroyed == 1; }));
  EXPECT_TRUE(eventually([&] { return owner_.has_ended(*spawned_.addresses[0]); }));
  EXPECT_THAT(refusal(0).message(), HasSubstr("has ended: all work is done"));
  EXPECT_EQ(unit(1).call<&ExitingActor::work>().get(), 1) << "the mesh stays";
  mesh_->stop();
  EXPECT_EQ(ExitingActor::destroyed, 2);
}

TEST_P(ActorExit, ItIsNoDeathAndCallsDoNotWaitForARestart) {
  unit(0).call<&ExitingActor::finish_now>().get();
  EXPECT_TRUE(eventually([&] { return owner_.has_ended(*spawned_.addresses[0]); }));
  EXPECT_FALSE(owner_.has_ended(*spawned_.addresses[1]));
  const ProcessId id = spawned_.addresses[0]->process.id;
  owner_.confirm_deaths_of(id);
  end_process();
  EXPECT_THAT(refusal(0).message(), HasSubstr("has ended: told to"));
  auto waits = unit(1).call<&ExitingActor::work>();
  EXPECT_FALSE(waits.wait_for(20ms)) << "the other actor is restarted";
  owner_.restart_ends(*spawned_.addresses[1], Error(ErrorCode::kPeerDied, "given up"));
  EXPECT_EQ(error_of([&] { (void)waits.get(); }).code(), ErrorCode::kPeerDied);
}

TEST_P(ActorExit, CallersElsewhereChooseAnEndedActorNoMore) {
  System elsewhere(test::system_options("elsewhere"));
  unit(0).call<&ExitingActor::finish_now>().get();
  for (System* const caller : {&elsewhere, process_.get()}) {
    const auto mesh = caller->handle_of<ExitingActor>(spawned_);
    EXPECT_THAT(error_of([&] { (void)mesh.rank(0).call<&ExitingActor::work>().get(); }).message(),
                HasSubstr("has ended: told to"));
    for (int i = 0; i < 20; ++i) EXPECT_GT(mesh.choose<&ExitingActor::work>().get(), 0);
  }
}

TEST_P(ActorExit, OtherSuspendedCallsAreCancelled) {
  auto wait = unit(0).call<&ExitingActor::wait>();
  EXPECT_TRUE(eventually([] { return ExitingActor::finishing == 1; }));
  unit(0).call<&ExitingActor::leave>().get();
  EXPECT_EQ(error_of([&] { wait.get(); }).code(), ErrorCode::kCancelled);
  EXPECT_TRUE(eventually([] { return ExitingActor::destroyed == 1; }));
  EXPECT_THAT(refusal(0).message(), HasSubstr("has ended: urgently"));
}

TEST_P(ActorExit, AStopCancelsTheBlockingHandlerThatEndedTheActor) {
  auto leaving = unit(0).call<&ExitingActor::leave_and_wait_for>(unit(1));
  EXPECT_TRUE(eventually([] { return ExitingActor::finishing == 1; }));
  unit(0).stop().get();
  EXPECT_EQ(error_of([&] { leaving.get(); }).code(), ErrorCode::kCancelled);
  EXPECT_EQ(ExitingActor::destroyed, 1);
}

TEST_P(ActorExit, TheNextOwnerOfAnEndedActorHearsOfItsExit) {
  unit(0).call<&ExitingActor::finish_now>().get();
  EXPECT_TRUE(eventually([&] { return owner_.has_ended(*spawned_.addresses[0]); }));
  System next(test::system_options("next owner"));
  const ProcessRef process = next.connect(process_->listen({"127.0.0.1", 0}));
  const SpawnedActors adopted = next.adopt_actors(
      {spawned_.interface, spawned_.name, spawned_.shape, {}, {}, GetParam()}, {process});
  ASSERT_EQ(adopted.addresses.size(), 1u);
  EXPECT_EQ(adopted.addresses[0]->actor, spawned_.addresses[0]->actor) << "it is not lost";
  ActorAddress owned = *adopted.addresses[0];
  owned.owner = next.self();
  next.supervise(owned);
  EXPECT_TRUE(next.has_ended(owned));
}

TEST_P(ActorExit, AnEndedActorCountsAsOwnedAndADirectoryDoesNot) {
  EXPECT_EQ(process_->num_owned_actors(), 2u);
  for (const std::int64_t rank : {0, 1}) unit(rank).call<&ExitingActor::finish_now>().get();
  // A moment ago both ends were counted twice.
  EXPECT_TRUE(eventually([&] { return process_->num_owned_actors() == 2; }));
  System other(test::system_options("other"));
  (void)other.host<ExitingActor>(GetParam(), kDirectoryName, false);
  EXPECT_EQ(other.num_owned_actors(), 0u);
  (void)other.host<ExitingActor>(GetParam(), "unit", false);
  EXPECT_EQ(other.num_owned_actors(), 1u);
}

TEST_P(ActorExit, ATimerAndAConstructorMayEndTheActor) {
  unit(0).call<&ExitingActor::finish_soon>().get();
  EXPECT_TRUE(eventually([] { return ExitingActor::destroyed == 1; }));
  EXPECT_THAT(refusal(0).message(), HasSubstr("has ended: time is over"));
  const auto at_once = process_->host<ExitingActor>(GetParam(), "at once", true);
  EXPECT_TRUE(eventually([] { return ExitingActor::destroyed == 2; }));
  EXPECT_THAT(error_of([&] { (void)at_once.call<&ExitingActor::work>().get(); }).message(),
              HasSubstr("at once has ended: nothing to do"));
}

TEST_P(ActorExit, TheNameOfAnEndedActorCanBeUsedAgain) {
  const auto first = process_->host<ExitingActor>(GetParam(), "unit", false);
  first.call<&ExitingActor::finish_now>().get();
  std::optional<ActorRef<ExitingActor>> second;
  EXPECT_TRUE(eventually([&] {
    try {
      second = process_->host<ExitingActor>(GetParam(), "unit", false);
    } catch (const Error& taken) {
      EXPECT_EQ(taken.code(), ErrorCode::kAlreadyExists);
    }
    return second.has_value();
  }));
  EXPECT_EQ(second->call<&ExitingActor::work>().get(), 1);
  second->stop().get();
  EXPECT_THAT(error_of([&] { (void)second->call<&ExitingActor::work>().get(); }).message(),
              HasSubstr("does not exist"));
}

}  // namespace
}  // namespace weft::actors
