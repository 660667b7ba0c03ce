#include "apps/cluster_view/actor_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using actors::ActorStatus;
using actors::RunRecord;
using ::testing::Contains;

ActorStatus actor(const std::string& run, const std::string& label) {
  ActorStatus status;
  status.run = run;
  status.label = label;
  return status;
}

RunRecord run(std::uint64_t number, const std::string& name) {
  RunRecord record;
  record.number = number;
  record.name = name;
  return record;
}

class ActorNames : public ::testing::Test {
 protected:
  std::vector<std::string> found(const std::string& wanted) const {
    std::vector<std::string> names;
    for (const ActorStatus& each : find_actors(actors_, runs_, wanted))
      names.push_back(full_name(each));
    return names;
  }

  const std::vector<ActorStatus> actors_ = {actor("", "clock"), actor("one", "hits"),
                                            actor("one", "pool[worker=0]"),
                                            actor("one", "pool[worker=1]"), actor("two", "hits")};
  const std::vector<RunRecord> runs_ = {run(7, "one"), run(9, "two")};
};

TEST_F(ActorNames, AMeshIsFoundByItsNameAndAnActorByItsLongOrShortLabel) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(found("pool"), (Names{"one/pool[worker=0]", "one/pool[worker=1]"}));
  EXPECT_EQ(found("pool[1]"), Names{"one/pool[worker=1]"});
  EXPECT_EQ(found("pool[worker=1]"), Names{"one/pool[worker=1]"});
  EXPECT_EQ(found("clock"), Names{"clock"});
  EXPECT_EQ(found("poo"), Names{});
  EXPECT_EQ(found("pool[2]"), Names{});
}

TEST_F(ActorNames, ARunIsGivenByItsNameOrNumber) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(found("hits"), (Names{"one/hits", "two/hits"}));
  EXPECT_EQ(found("two/hits"), Names{"two/hits"});
  EXPECT_EQ(found("9/hits"), Names{"two/hits"});
  EXPECT_EQ(found("three/hits"), Names{});
}

TEST_F(ActorNames, ActorsOfTheClusterComeFirst) {
  using Names = std::vector<std::string>;
  std::vector<ActorStatus> actors = actors_;
  actors.push_back(actor("two", "clock"));
  const auto names = [&](const std::string& wanted) {
    Names full;
    for (const ActorStatus& each : find_actors(actors, runs_, wanted))
      full.push_back(full_name(each));
    return full;
  };
  EXPECT_EQ(names("clock"), Names{"clock"});
  EXPECT_EQ(names("cluster/clock"), Names{"clock"});
  EXPECT_EQ(names("two/clock"), Names{"two/clock"});
  EXPECT_EQ(names("cluster/hits"), Names{});
}

TEST_F(ActorNames, TheNumberOfAnEndedRunFindsNothing) {
  std::vector<RunRecord> runs = runs_;
  runs[1].state = actors::RunState::kDone;
  EXPECT_TRUE(find_actors(actors_, runs, "9/hits").empty());
}

TEST_F(ActorNames, TheRunOfActorsMustBeUnique) {
  EXPECT_EQ(find_run_of_actors(actors_, runs_, "pool"), (ActorName{"one", "pool"}));
  EXPECT_EQ(find_run_of_actors(actors_, runs_, "9/hits"), (ActorName{"two", "hits"}));
  EXPECT_EQ(find_run_of_actors(actors_, runs_, "clock"), (ActorName{"", "clock"}));
  EXPECT_EQ(find_run_of_actors(actors_, runs_, "nobody"), std::nullopt);
  EXPECT_THAT([&] { find_run_of_actors(actors_, runs_, "hits"); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "several runs have actors named 'hits': one/hits, two/hits"));
}

TEST_F(ActorNames, CandidatesForTheNearestNameHaveAllForms) {
  const std::vector<std::string> known = known_actor_names(actors_);
  for (const char* name : {"clock", "hits", "one/hits", "two/hits", "pool", "one/pool",
                           "pool[worker=1]", "one/pool[worker=1]"})
    EXPECT_THAT(known, Contains(name));
}

}  // namespace
}  // namespace weft::apps
