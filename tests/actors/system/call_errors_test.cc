#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "actors/system/system.h"
#include "tests/actors/system/pool.h"
#include "tests/support/eventually.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;

/// Actor that calls and stops others in its handlers.
class Asker final {
 public:
  explicit Asker(Context&) {}
  /// Returns the progress of a call that fails.
  task<std::uint8_t> fail(ActorRef<Solver> solver) {
    auto failing = solver.call<&Solver::rank_from>(99);
    try {
      (void)co_await failing;
    } catch (const Error& error) {
      co_return static_cast<std::uint8_t>(error.progress());
    }
    co_return 0;
  }
  task<> stop(MeshRef<Solver> mesh) { co_await mesh.stop(); }
  static constexpr auto endpoints =
      interface<"test.asker", 1>(on<&Asker::fail>("fail"), on<&Asker::stop>("stop"));
};

TEST(CallErrors, TellWhetherTheCallHasRun) {
  Pool pool(2);
  const ActorRef<Solver> first = pool.mesh->rank(0);
  Error error = error_of([&] { (void)first.call<&Solver::rank_from>(99).get(); });
  EXPECT_EQ(error.progress(), CallProgress::kFailed);
  const auto asker = pool.driver.host<Asker>("asker");
  EXPECT_EQ(asker.call<&Asker::fail>(first).get(),
            static_cast<std::uint8_t>(CallProgress::kFailed));
  error = error_of([&] { (void)first.call<&Solver::wait_below>(2).get(1ms); });
  EXPECT_EQ(error.progress(), CallProgress::kMayHaveStarted);
  pool.mesh->rank(1).call<&Solver::leave>().get();
  EXPECT_TRUE(eventually([&] {
    return error_of([&] { (void)pool.mesh->rank(1).call<&Solver::rank>().get(); }).progress() ==
           CallProgress::kNotStarted;
  }));
}

TEST(CallErrors, OfMeshesTellItPerActor) {
  Pool pool(3);
  auto collected = pool.mesh->call_collect<&Solver::wait_below>(1);
  auto stream = pool.mesh->stream<&Solver::wait_below>(1);
  auto all = pool.mesh->call<&Solver::wait_below>(1);
  ASSERT_TRUE(eventually([&] { return pool.mesh->rank(0).call<&Solver::is_waiting>().get(); }));
  pool.kill(0);
  const auto outcomes = collected.get();
  ASSERT_FALSE(outcomes.at(0).ok());
  EXPECT_EQ(outcomes[0].error().progress(), CallProgress::kMayHaveStarted);
  EXPECT_TRUE(outcomes.at(1).ok());
  for (auto&& [rank, result] : stream)
    EXPECT_EQ(result.ok() ? CallProgress::kMayHaveStarted : result.error().progress(),
              CallProgress::kMayHaveStarted)
        << rank;
  EXPECT_EQ(error_of([&] { (void)all.get(); }).progress(), CallProgress::kMayHaveStarted);
  // The process is known to be dead.
  EXPECT_EQ(error_of([&] { (void)pool.mesh->rank(0).call<&Solver::rank>().get(); }).progress(),
            CallProgress::kNotSent);
}

TEST(CallErrors, ACallWhoseDeadlineHasPassedIsNotSent) {
  Pool pool(2);
  for (const Nanoseconds left : {0ns, Nanoseconds(-1s), -kNoDeadline}) {
    const Error error =
        error_of([&] { (void)pool.mesh->rank(0).within(left).call<&Solver::note>("").get(); });
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(error.progress(), CallProgress::kNotSent);
  }
  auto all = pool.mesh->within(0ns).call<&Solver::note>("");
  EXPECT_EQ(error_of([&] { all.get(); }).progress(), CallProgress::kNotSent);
  for (auto&& [item, result] : pool.mesh->within(0ns).map<&Solver::note>(std::vector{"a", "b"}))
    EXPECT_EQ(result.error().code(), ErrorCode::kDeadlineExceeded) << item;
  EXPECT_EQ(pool.mesh->call<&Solver::square>(2).get().size(), 2u) << "later calls arrive";
  EXPECT_EQ(Solver::noted, 0);
}

TEST(CallErrors, EmptyHandlesAreRefused) {
  const ActorRef<Solver> actor;
  const MeshRef<Solver> mesh;
  const std::vector<int> items{1};
  const std::vector<std::function<void()>> uses = {
      [&] { (void)actor.call<&Solver::square>(1); },
      [&] { (void)actor.tell<&Solver::note>(""); },
      [&] { (void)actor.stop(); },
      [&] { (void)actor.address(); },
      [&] { (void)mesh.call<&Solver::square>(1); },
      [&] { (void)mesh.call_collect<&Solver::square>(1); },
      [&] { (void)mesh.call_one<&Solver::square>(1); },
      [&] { mesh.tell<&Solver::note>(""); },
      [&] { (void)mesh.scatter<&Solver::square>(std::vector<int>()); },
      [&] { (void)mesh.stream<&Solver::square>(1); },
      [&] { (void)mesh.map<&Solver::square>(items); },
      [&] { (void)mesh.choose<&Solver::square>(1); },
      [&] { (void)mesh.reduce<&Solver::square>(sum, 1); },
      [&] { (void)mesh.reports<int>(); },
      [&] { (void)mesh.stop(); },
      [&] { (void)mesh.rank(0); },
      [&] { (void)mesh.slice({}); },
  };
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Error error = error_of(uses[i]);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << i;
    EXPECT_THAT(error.message(), testing::StartsWith("the handle is empty: ")) << i;
  }
}

TEST(CallErrors, AMeshIsStoppedByItsOwnerOnlyAlsoInAHandler) {
  Pool pool(2);
  const auto outsider = pool.workers[0]->host<Asker>("asker");
  const Error error = error_of([&] { outsider.call<&Asker::stop>(pool.mesh->ref()).get(); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(error_of([&] { pool.mesh->within(0ns).stop().get(); }).code(),
            ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(pool.mesh->call<&Solver::square>(2).get().size(), 2u);
  pool.kill(0);
  const auto owner = pool.driver.host<Asker>("asker");
  owner.call<&Asker::stop>(pool.mesh->ref()).get();  // a dead rank has ended
  EXPECT_EQ(error_of([&] { (void)pool.mesh->rank(1).call<&Solver::rank>().get(); }).code(),
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace weft::actors
