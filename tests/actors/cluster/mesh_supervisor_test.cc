#include "actors/cluster/mesh_supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/eventually.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Cluster in which process 10 * rank + incarnation runs the actor of a rank.
class FakeActions final : public SupervisorActions {
 public:
  Renewed renew(const MeshKey& key, const MeshShape&, const SpawnOptions&,
                const std::set<std::uint32_t>& broken) override {
    const std::lock_guard lock(mutex);
    renewals.push_back(broken);
    Renewed renewed{{key.name, key.epoch + 1}, {}, {}};
    if (!missing.empty()) {
      renewed.missing = missing.front();
      missing.pop_front();
      renewed.problem = problem;
    }
    if (!shares)
      for (const std::uint32_t rank : broken) ++incarnation.at(rank);
    renewed.has_lost_all = lost_all;
    for (std::uint32_t rank = 0; rank < incarnation.size(); ++rank)
      renewed.processes.push_back(process_of(rank));
    return renewed;
  }
  SpawnedActors respawn(const SpawnedActors& actors, const std::vector<ProcessRef>& processes,
                        const RestartInfo& info, const std::set<std::uint32_t>& again) override {
    const std::lock_guard lock(mutex);
    infos.push_back(info);
    spawned_again.push_back(again);
    respawned.push_back(processes);
    for (std::size_t rank = 0; rank < processes.size(); ++rank)
      if (processes[rank].id != actors.addresses[rank]->process.id &&
          !childless.contains(actors.addresses[rank]->label))
        with_children.push_back(actors.addresses[rank]->label);
    if (!constructor_errors.empty()) {
      const Error error = constructor_errors.front();
      constructor_errors.pop_front();
      throw Error(error);
    }
    SpawnedActors now = actors;
    for (std::size_t rank = 0; rank < processes.size(); ++rank)
      now.addresses[rank] = std::make_shared<const ActorAddress>(
          ActorAddress{processes[rank], ActorId(1), "unit" + std::to_string(rank)});
    return now;
  }
  void end_children(const std::vector<ActorAddress>& parents) override {
    const std::lock_guard lock(mutex);
    for (const ActorAddress& parent : parents) childless.insert(parent.label);
  }
  void restart_begins(const ActorAddress& actor) override {
    const std::lock_guard lock(mutex);
    begun.push_back(actor.label);
  }
  void restart_ends(const ActorAddress&, const Outcome<ActorAddress>& now) override {
    const std::lock_guard lock(mutex);
    if (!now.ok()) lost.push_back(now.error().message());
  }
  void end_supervision(const ActorAddress&, const Error& why) override {
    const std::lock_guard lock(mutex);
    ended.push_back(why.message());
  }
  bool has_ended(const ActorAddress& actor) const override {
    const std::lock_guard lock(mutex);
    ++questions;
    return exited.contains(actor.label);
  }
  void give_up(const Incident&, const Error& error) override {
    const std::lock_guard lock(mutex);
    given_up.push_back(error.message());
  }
  void report(const std::string& kind, const std::string& text) override {
    const std::lock_guard lock(mutex);
    reports.push_back(kind + ": " + text);
  }

  ProcessRef process_of(std::uint32_t rank) const {
    return {ProcessId(10 * rank + incarnation.at(rank)), "process", {}};
  }
  SpawnedActors actors() const {
    SpawnedActors made{{"test.unit", 1, 1}, "units", MeshShape{{"unit", 3}}, {}};
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      made.addresses.push_back(std::make_shared<const ActorAddress>(
          ActorAddress{process_of(rank), ActorId(1), "unit" + std::to_string(rank)}));
    return made;
  }
  /// Returns the death of a rank's process in an epoch.
  MeshFailure death_of(std::uint32_t rank, std::uint64_t epoch) const {
    MeshFailure failure;
    failure.incident.mesh = "units";
    failure.incident.epoch = epoch;
    ProcessFailure death;
    death.mesh = "units";
    death.rank = rank;
    death.host = "worker";
    death.evidence.pid = static_cast<std::int64_t>(100 * epoch + rank);
    failure.incident.failures = {death};
    failure.dead = {process_of(rank).id};
    return failure;
  }
  bool restarted(std::size_t times) const {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return static_cast<std::size_t>(std::ranges::count_if(reports, [](const std::string& text) {
               return text.starts_with("restarted");
             })) == times;
    });
  }
  bool gave_up() const {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return !given_up.empty();
    });
  }

  mutable std::mutex mutex;
  std::vector<std::uint64_t> incarnation = {0, 0, 0};
  std::vector<std::set<std::uint32_t>> renewals;
  std::deque<std::set<std::uint32_t>> missing;  ///< Ranks without a process, per renewal.
  Error problem = Error(ErrorCode::kResourceExhausted, "no device is free");
  std::deque<Error> constructor_errors;
  std::set<std::string> exited;  ///< Labels of actors that ended themselves.
  mutable int questions = 0;     ///< Number of questions whether an actor ended itself.
  bool shares = false;           ///< True if processes that live are not replaced.
  bool lost_all = false;         ///< See Renewed::has_lost_all.
  std::vector<std::set<std::uint32_t>> spawned_again;
  std::vector<std::vector<ProcessRef>> respawned;
  std::vector<RestartInfo> infos;
  std::vector<std::string> begun, lost, ended, given_up, reports;
  std::set<std::string> childless;         ///< Labels of actors whose children were stopped.
  std::vector<std::string> with_children;  ///< Actors that were replaced before that.
};

const MeshKey kFirst{"units", 1};

TEST(MeshSupervisor, LeavesMeshesWithoutAPolicyAlone) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  EXPECT_FALSE(supervisor.failed(actions.death_of(0, 1)));
  EXPECT_FALSE(supervisor.supervises(kFirst));
  supervisor.end(kFirst);
  EXPECT_EQ(supervisor.present_key(kFirst), std::nullopt);
}

TEST(MeshSupervisor, RestartsTheRanksOfThePolicy) {
  const auto begun_under = [](OnFailure policy) {
    FakeActions actions;
    MeshSupervisor supervisor(actions);
    supervisor.add(kFirst, {.on_failure = policy});
    supervisor.begin(kFirst, actions.actors());
    EXPECT_TRUE(supervisor.failed(actions.death_of(1, 1)));
    EXPECT_TRUE(actions.restarted(1));
    supervisor.end(kFirst);
    EXPECT_EQ(supervisor.present_key(kFirst), (MeshKey{"units", 2}));
    EXPECT_THAT(actions.with_children, IsEmpty()) << "children end before the next incarnation";
    EXPECT_EQ(actions.childless, std::set(actions.begun.begin(), actions.begun.end()));
    return actions.begun;
  };
  EXPECT_THAT(begun_under(one_for_one), ElementsAre("unit1"));
  EXPECT_THAT(begun_under(one_for_all), ElementsAre("unit0", "unit1", "unit2"));
  EXPECT_THAT(begun_under(rest_for_one), ElementsAre("unit1", "unit2"));
}

TEST(MeshSupervisor, ActorsInSharedProcessesAreSpawnedAgainThoughTheirProcessesLive) {
  FakeActions actions;
  actions.shares = true;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.on_failure = rest_for_one, .restarts = 5});
  supervisor.begin(kFirst, actions.actors());
  const MeshFailure death = actions.death_of(1, 1);
  actions.incarnation[1] = 1;  // the head replaces it with the next renewal
  actions.missing = {{1}};
  actions.constructor_errors = {Error(ErrorCode::kInternal, "not yet")};
  ASSERT_TRUE(supervisor.failed(death));
  ASSERT_TRUE(actions.restarted(1));
  supervisor.end(kFirst);
  const std::set<std::uint32_t> both{1, 2};
  EXPECT_THAT(actions.spawned_again, ElementsAre(both, both))
      << "neither a lack of processes nor a constructor that throws loses a rank";
}

TEST(MeshSupervisor, AllActorsAreSpawnedAgainIfTheHeadHasReleasedTheMesh) {
  FakeActions actions;
  actions.shares = actions.lost_all = true;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 5});
  supervisor.begin(kFirst, actions.actors());
  actions.exited = {"unit2"};
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.restarted(1));
  supervisor.end(kFirst);
  EXPECT_THAT(actions.spawned_again, ElementsAre(std::set<std::uint32_t>{0, 1}));
  EXPECT_THAT(actions.childless, ElementsAre("unit0", "unit1"))
      << "also of an actor whose process lives";
}

TEST(MeshSupervisor, ALostActorLeavesItsNeighboursInTheProcessAlone) {
  FakeActions actions;
  actions.shares = true;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 5});
  SpawnedActors adopted = actions.actors();
  for (auto& actor : adopted.addresses)
    actor = std::make_shared<const ActorAddress>(
        ActorAddress{actions.process_of(0), actor->actor, actor->label});
  adopted.addresses[1] = std::make_shared<const ActorAddress>(
      ActorAddress{actions.process_of(0), lost_actor_id("unit1"), "unit1"});
  supervisor.begin(kFirst, adopted);
  ASSERT_TRUE(supervisor.failed(actions.death_of(0, 1)));
  ASSERT_TRUE(actions.restarted(1));
  supervisor.end(kFirst);
  EXPECT_THAT(actions.begun, ElementsAre("unit1"));
  EXPECT_THAT(actions.spawned_again, ElementsAre(std::set<std::uint32_t>{1}));
}

TEST(MeshSupervisor, AMeshThatIsBeingReleasedTakesNoReportsOfTheNextOneOfItsName) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 5});
  supervisor.begin(kFirst, actions.actors());
  supervisor.end(kFirst);
  const MeshKey next{kFirst.name, kFirst.epoch + 1};
  supervisor.add(next, {.restarts = 5});
  supervisor.begin(next, actions.actors());
  EXPECT_TRUE(supervisor.failed(actions.death_of(1, kFirst.epoch)));
  EXPECT_TRUE(supervisor.failed(actions.death_of(2, next.epoch)));
  EXPECT_TRUE(actions.restarted(1));
  EXPECT_EQ(supervisor.present_key(kFirst), kFirst);
  supervisor.forget(kFirst);
  EXPECT_EQ(supervisor.present_key(kFirst), std::nullopt);
  EXPECT_TRUE(supervisor.supervises(next));
  supervisor.end(next);
  EXPECT_THAT(actions.begun, ElementsAre("unit2"));
}

TEST(SpawnOptions, ActorsWithoutDevicesEscalateUnlessRestartsAreAllowed) {
  EXPECT_TRUE(SpawnOptions().supervised());
  EXPECT_EQ(SpawnOptions().policy(), escalate);
  EXPECT_EQ(SpawnOptions{.restarts = 1}.policy(), one_for_one);
  EXPECT_TRUE(SpawnOptions().shares_processes());
  EXPECT_FALSE(SpawnOptions{.process = ActorProcess::kOwn}.shares_processes());
  const SpawnOptions trainer{.needs = {.devices = 1}};
  EXPECT_FALSE(trainer.supervised()) << "the failure scope of the cluster counts";
  EXPECT_FALSE(trainer.shares_processes());
}

TEST(MeshSupervisor, RestartsNoActorThatHasEndedItself) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.on_failure = one_for_all});
  supervisor.begin(kFirst, actions.actors());
  actions.exited = {"unit1"};
  const ProcessRef process_of_ended = actions.process_of(1);
  EXPECT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  EXPECT_TRUE(supervisor.failed(actions.death_of(2, 1)));
  EXPECT_TRUE(actions.restarted(1));
  EXPECT_THAT(actions.begun, ElementsAre("unit0", "unit2"));
  EXPECT_THAT(actions.renewals, ElementsAre(std::set<std::uint32_t>{0, 2}));
  ASSERT_EQ(actions.respawned.size(), 1u);
  EXPECT_EQ(actions.respawned[0][1], process_of_ended) << "its process is not replaced";
  EXPECT_EQ(actions.infos[0].attempt, 1u) << "its death counts as none";
}

TEST(MeshSupervisor, RestForOneBeginsWithTheFirstDeathAndNotWithAnActorThatHasEnded) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.on_failure = rest_for_one});
  actions.exited = {"unit0"};
  ASSERT_TRUE(supervisor.failed(actions.death_of(0, 1)));
  ASSERT_TRUE(supervisor.failed(actions.death_of(2, 1)));
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(actions.restarted(1));
  EXPECT_THAT(actions.begun, ElementsAre("unit2"));
}

TEST(MeshSupervisor, IgnoresTheDeathOfAProcessThatCameInPlaceOfThatOfAnEndedActor) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 5});
  supervisor.begin(kFirst, actions.actors());
  actions.exited = {"unit1"};
  actions.incarnation[1] = 1;  // the head replaces it with the next renewal
  ASSERT_TRUE(supervisor.failed(actions.death_of(0, 1)));
  ASSERT_TRUE(actions.restarted(1));
  const auto questions = [&] {
    const std::lock_guard lock(actions.mutex);
    return actions.questions;
  };
  const int before = questions();
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 2)));
  EXPECT_TRUE(eventually([&] { return questions() > before; }));
  supervisor.end(kFirst);
  EXPECT_EQ(actions.renewals.size(), 1u);
  EXPECT_THAT(actions.given_up, IsEmpty());
}

TEST(MeshSupervisor, TellsTheActorAttemptAndEpochAndCountsAgain) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 5});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.restarted(1));
  EXPECT_TRUE(supervisor.supervises({"units", 2}));
  ASSERT_TRUE(supervisor.failed(actions.death_of(0, 2)));
  ASSERT_TRUE(actions.restarted(2));
  ASSERT_EQ(actions.infos.size(), 2u);
  EXPECT_EQ(actions.infos[0].epoch, 2u);
  EXPECT_EQ(actions.infos[0].attempt, 1u);
  EXPECT_EQ(actions.infos[1].epoch, 3u);
  EXPECT_EQ(actions.infos[1].attempt, 2u);
}

TEST(MeshSupervisor, IgnoresDeathsInAnEpochThatIsReplaced) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 5});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.restarted(1));
  ASSERT_TRUE(supervisor.failed(actions.death_of(2, 1))) << "reported late";
  supervisor.end(kFirst);
  EXPECT_EQ(actions.renewals.size(), 1u);
}

TEST(MeshSupervisor, WaitsForDevicesWithoutCountingDeaths) {
  FakeActions actions;
  actions.missing = {{1}, {1}, {1}};
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 1});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.restarted(1));
  EXPECT_EQ(actions.renewals.size(), 4u);
  EXPECT_THAT(actions.given_up, IsEmpty());
}

TEST(MeshSupervisor, AConstructorThatThrowsCountsUntilNoRestartIsLeft) {
  FakeActions actions;
  for (int i = 0; i < 5; ++i)
    actions.constructor_errors.emplace_back(ErrorCode::kInternal, "no file " + std::to_string(i));
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 3});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.gave_up());
  EXPECT_THAT(
      actions.given_up[0],
      testing::AllOf(
          HasSubstr("units is not restarted again: it has used its limit of 3 within 600 s"),
          HasSubstr("no file 0"), HasSubstr("no file 1")));
  EXPECT_EQ(actions.infos.size(), 3u);
  EXPECT_EQ(actions.lost.size(), 3u) << "all ranks fail with the reason";
  // A later death changes nothing.
  EXPECT_TRUE(supervisor.failed(actions.death_of(0, 9)));
  supervisor.end(kFirst);
  EXPECT_EQ(actions.given_up.size(), 1u);
}

TEST(MeshSupervisor, AnyErrorOfAConstructorIsTriedAgain) {
  FakeActions actions;
  actions.constructor_errors.emplace_back(ErrorCode::kInvalidArgument, "no such file");
  actions.constructor_errors.emplace_back(ErrorCode::kUnavailable, "no such service");
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 3});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.restarted(1));
  EXPECT_EQ(actions.infos.back().attempt, 3u) << "each of them counts";
}

TEST(MeshSupervisor, ADeathDuringTheConstructionIsRestartedAfterIt) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 3});
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  EXPECT_THAT(actions.renewals, IsEmpty());
  supervisor.begin(kFirst, actions.actors());
  EXPECT_TRUE(actions.restarted(1));
}

TEST(MeshSupervisor, DeathsThatAreReportedTogetherAreOneRestart) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.on_failure = rest_for_one});
  ASSERT_TRUE(supervisor.failed(actions.death_of(2, 1)));
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(actions.restarted(1));
  EXPECT_THAT(actions.begun, ElementsAre("unit1", "unit2"));
}

TEST(MeshSupervisor, AnExceptionOfTheOwnersDecisionEscalates) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(
      kFirst, {.decide = [](const Incident&) -> OnFailure { throw std::runtime_error("a bug"); }});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.gave_up());
  EXPECT_THAT(actions.given_up[0], HasSubstr("a bug"));
}

TEST(MeshSupervisor, AnErrorOfTheClusterThatStaysEndsTheMeshAtOnce) {
  FakeActions actions;
  actions.missing = {{1}};
  actions.problem = Error(ErrorCode::kIncompatible, "another executable");
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 3});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.gave_up());
  EXPECT_EQ(actions.given_up[0], "another executable");
}

TEST(MeshSupervisor, TheOwnerCanDecidePerIncident) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.decide = [](const Incident& incident) {
                   return incident.epoch == 1 ? one_for_one : escalate;
                 }});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(actions.restarted(1));
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 2)));
  ASSERT_TRUE(actions.gave_up());
  EXPECT_EQ(actions.renewals.size(), 1u);
}

TEST(MeshSupervisor, AMeshThatIsStoppedDuringARestartEndsIt) {
  FakeActions actions;
  actions.missing.assign(1000, {1});
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 3});
  supervisor.begin(kFirst, actions.actors());
  ASSERT_TRUE(supervisor.failed(actions.death_of(1, 1)));
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(actions.mutex);
    return actions.renewals.size() >= 2;
  }));
  supervisor.end(kFirst);
  EXPECT_THAT(actions.lost, testing::Each(HasSubstr("was stopped while it was restarted")));
  EXPECT_THAT(actions.given_up, IsEmpty()) << "its owner knows";
  EXPECT_TRUE(supervisor.failed(actions.death_of(1, 2))) << "deaths are ignored";
  supervisor.forget(kFirst);
  EXPECT_FALSE(supervisor.failed(actions.death_of(1, 2))) << "it is not supervised any more";
}

TEST(MeshSupervisor, AStopTellsWaitingCalls) {
  FakeActions actions;
  MeshSupervisor supervisor(actions);
  supervisor.add(kFirst, {.restarts = 3});
  supervisor.begin(kFirst, actions.actors());
  supervisor.end(kFirst);
  EXPECT_EQ(supervisor.present_key(kFirst), kFirst);
  EXPECT_EQ(actions.ended, std::vector<std::string>(3, "units was stopped by its owner"));
}

}  // namespace
}  // namespace weft::actors
