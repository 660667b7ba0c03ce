#include "mesh/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "core/base/error.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

SearchRequest request_of(int p, int m, const StageCosts& stage, double transfer,
                         double memory = 0) {
  SearchRequest request;
  request.actor_of_stage = place_stages(StagePlacement::kOnePerActor, p, 1);
  request.microbatches = m;
  request.costs = uniform_costs(p, stage, transfer);
  if (memory > 0) request.memory_of_actor.assign(p, memory);
  request.budget = 300'000;
  return request;
}

void expect_no_worse_than_the_named(const SearchRequest& request) {
  const SearchResult result = search_schedule(request);
  validate(result.schedule, request.costs.stage_edges());
  for (std::size_t actor = 0; actor < request.memory_of_actor.size(); ++actor) {
    EXPECT_LE(result.simulation.actors[actor].peak, request.memory_of_actor[actor] * (1 + 1e-9));
  }
  for (const SearchCandidate& named : result.named) {
    if (named.fits) {
      EXPECT_LE(result.simulation.makespan, named.makespan) << named.name;
    }
  }
}

TEST(SearchSchedule, IsNeverWorseThanANamedOneThatFits) {
  const unsigned seed = 20241;
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> time(0.2, 2.0);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    const int p = 2 + round % 3, m = 3 + round % 5;
    SearchRequest request = request_of(p, m, {}, 0, round % 2 == 0 ? 0 : p);
    request.budget = 60'000;
    for (StageCosts& stage : request.costs.stages) {
      stage.forward = time(random);
      stage.input_grad = time(random);
      stage.weight_grad = time(random);
    }
    for (EdgeCosts& edge : request.costs.edges) edge.forward = edge.backward = time(random) / 2;
    expect_no_worse_than_the_named(request);
  }
}

TEST(SearchSchedule, WorksOnLoopsAndOnVs) {
  for (const StagePlacement placement : {StagePlacement::kLooped, StagePlacement::kVShaped}) {
    SearchRequest request = request_of(3, 6, {}, 0);
    request.actor_of_stage = place_stages(placement, 3, 2);
    request.costs = uniform_costs(6,
                                  {.forward = 0.5,
                                   .input_grad = 0.6,
                                   .weight_grad = 0.4,
                                   .activations = 0.5,
                                   .for_weight_grad = 0.5},
                                  0.2);
    request.budget = 100'000;
    expect_no_worse_than_the_named(request);
    EXPECT_GE(search_schedule(request).named.size(), 3u);
  }
}

TEST(SearchSchedule, HidesTransfersWithinOneFOneBsMemory) {
  // Moving W away lets transfers of (F + B) / 6 hide in the memory of 1F1B. 1F1B itself loses two
  // of them per microbatch.
  const SearchRequest request = request_of(4, 16, {}, 0.5, 4);
  const SearchResult result = search_schedule(request);
  const auto named = std::ranges::find(result.named, "1f1b", &SearchCandidate::name);
  ASSERT_NE(named, result.named.end());
  EXPECT_LT(result.simulation.makespan, 0.9 * named->makespan);
  const auto eager = std::ranges::find(result.named, "eager-1f1b", &SearchCandidate::name);
  EXPECT_FALSE(eager->fits);
  EXPECT_LE(result.simulation.makespan, eager->makespan);
}

TEST(SearchSchedule, ReachesTheBoundWhereMemoryAllows) {
  // The last actor cannot start before the first microbatch has arrived there.
  const SearchResult result = search_schedule(request_of(4, 12, {}, 0));
  EXPECT_DOUBLE_EQ(result.simulation.makespan, 3 * 12 + 3);
  EXPECT_DOUBLE_EQ(result.bound, 3 * 12 + 3);
  // Transfers of a whole F + B in each direction also hide, except those of the first microbatch.
  EXPECT_DOUBLE_EQ(search_schedule(request_of(4, 16, {}, 3)).bound, 3 * 16 + 3 * (1 + 3));
}

TEST(SearchSchedule, HidesTransfersThatEagerHidesWithNoMoreMemory) {
  // eager-1f1b hides up to (F + B) / 2, in the memory of seven microbatches.
  for (const double transfer : {0.25, 0.5, 1.0, 1.5}) {
    const SearchResult result = search_schedule(request_of(4, 12, {}, transfer, 7));
    const auto eager = std::ranges::find(result.named, "eager-1f1b", &SearchCandidate::name);
    EXPECT_LT(result.simulation.makespan, eager->makespan) << transfer;
    EXPECT_LE(result.simulation.peak(), 7) << transfer;
  }
}

/// Transfers of up to 1.5 (F + B): `auto` is never slower than a named schedule whose memory it
/// gets, actor by actor.
TEST(SearchSchedule, HidesAtLeastWhatOneFOneBAndEagerHideInTheirMemory) {
  for (const int p : {2, 4, 8}) {
    for (const double part : {0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5}) {
      for (const char* name : {"1f1b", "eager-1f1b", "zb-h1"}) {
        SCOPED_TRACE(testing::Message()
                     << name << ", " << p << " actors, transfers of " << part << " (F + B)");
        SearchRequest request = request_of(p, 2 * p, {}, part * 3);
        const ScheduleSimulation named = simulate(make_schedule(name, p, 2 * p), request.costs);
        for (const SimulatedActor& actor : named.actors)
          request.memory_of_actor.push_back(actor.peak);
        request.budget = 20'000;
        const SearchResult result = search_schedule(request);
        EXPECT_LE(result.simulation.makespan, named.makespan * (1 + 1e-12));
        for (std::size_t actor = 0; actor < named.actors.size(); ++actor) {
          EXPECT_LE(result.simulation.actors[actor].peak, named.actors[actor].peak * (1 + 1e-9));
        }
      }
    }
  }
}

TEST(SearchSchedule, TheSameRequestGivesTheSameSchedule) {
  const SearchRequest request =
      request_of(3, 7, {.forward = 1, .input_grad = 1.3, .weight_grad = 0.6}, 0.4, 4);
  const SearchResult a = search_schedule(request), b = search_schedule(request);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.simulated, b.simulated);
  EXPECT_EQ(a.schedule.name, "auto");
}

TEST(SearchSchedule, BudgetBoundsTheEffort) {
  SearchRequest request = request_of(4, 8, {}, 0.3);
  request.budget = 1000;
  const SearchResult result = search_schedule(request);
  EXPECT_LE(result.simulated, 5000) << "the named ones are always simulated";
}

TEST(SearchSchedule, TooLittleMemoryIsReportedWithTheActor) {
  EXPECT_THAT([&] { search_schedule(request_of(2, 4, {}, 0, 0.5)); },
              test::throws_error(ErrorCode::kResourceExhausted,
                                 "actor 0 has memory for 0.5, but one microbatch takes 1 there"));
  // Running one microbatch at a time is slow, but fits.
  EXPECT_DOUBLE_EQ(search_schedule(request_of(2, 4, {}, 0, 1)).simulation.peak(), 1);
}

TEST(SearchSchedule, SkipConnectionsAreObeyed) {
  SearchRequest request = request_of(4, 8, {}, 0.25);
  request.costs.edges.push_back({{0, 3, 0}, 0.5, 0.5});
  expect_no_worse_than_the_named(request);
}

TEST(SearchPlaced, PicksTheBestPlacement) {
  SearchRequest request = request_of(4, 8, {}, 0);
  request.budget = 200'000;
  ScheduleCosts costs;
  const SearchResult result = search_placed_schedule(4, request, costs);
  EXPECT_EQ(costs.stages.size(), static_cast<std::size_t>(result.schedule.stages));
  EXPECT_EQ(result.named.size(), schedule_names().size() + 3)
      << "looped ones also with one stage per actor";
  for (const SearchCandidate& named : result.named)
    EXPECT_LE(result.simulation.makespan, named.makespan) << named.name;
  // Half stages start the last actor twice as early. zb-v takes 25.5, close to the optimum.
  EXPECT_LE(result.simulation.makespan, 25.5);
}

TEST(SearchPlaced, PicksThePlacementOfTheShortestStep) {
  for (const int seed : {8, 16, 20}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto upto = [&](double most) {
      return most * static_cast<double>(random() % 1000) / 1e3;
    };
    SearchRequest request = request_of(2, 2 + seed % 4, {}, upto(1));
    request.budget = 20'000;
    for (StageCosts& stage : request.costs.stages) {
      stage = {0.5 + upto(1), 0.5 + upto(1), 0.5 + upto(1)};
      stage.reduce_grad = upto(6);
      stage.optimizer = upto(2);
    }
    ScheduleCosts costs;
    const double placed = search_placed_schedule(2, request, costs).simulation.step_time;
    for (const auto& [placement, chunks] :
         {std::pair(StagePlacement::kOnePerActor, 1), std::pair(StagePlacement::kLooped, 2),
          std::pair(StagePlacement::kVShaped, 2)}) {
      SearchRequest one = request;
      one.actor_of_stage = place_stages(placement, 2, chunks);
      one.costs = split_stages(request.costs, chunks);
      EXPECT_LE(placed, search_schedule(one).simulation.step_time * (1 + 1e-9));
    }
  }
}

/// Adds S, T and input passes that take a fraction of a forward.
SearchRequest with_vocabulary_of(SearchRequest request, VocabularyMode mode) {
  request.vocabulary = mode;
  for (StageCosts& stage : request.costs.stages) {
    stage.vocabulary_scores = mode == VocabularyMode::kVocab2 ? 0.2 : 0.1;
    stage.vocabulary_grads = 0.3 - stage.vocabulary_scores;
    stage.input_forward = stage.input_backward = 0.01;
  }
  return request;
}

TEST(SearchWithVocabulary, VocabularyPassesAreInEveryScheduleAndNoneNamedIsFaster) {
  for (const VocabularyMode mode : {VocabularyMode::kVocab1, VocabularyMode::kVocab2}) {
    for (const double transfer : {0.0, 0.4}) {
      const SearchRequest request = with_vocabulary_of(request_of(4, 12, {}, transfer), mode);
      const SearchResult result = search_schedule(request);
      validate(result.schedule, request.costs.stage_edges());
      require_vocabulary(result.schedule, mode);
      EXPECT_GE(result.named.size(), 3u);
      for (const SearchCandidate& one : result.named)
        EXPECT_LE(result.simulation.makespan, one.makespan * (1 + 1e-9)) << one.name;
      EXPECT_GE(result.simulation.step_time, result.bound * (1 - 1e-12));
      EXPECT_GE(result.bound, 12 * (3 + 0.3));
    }
  }
}

TEST(SearchWithVocabulary, VocabularyPassesFitInMemory) {
  SearchRequest request =
      with_vocabulary_of(request_of(4, 12, {}, 0.2, 6), VocabularyMode::kVocab2);
  for (StageCosts& stage : request.costs.stages) stage.score_memory = 0.5;
  const SearchResult result = search_schedule(request);
  EXPECT_LE(result.simulation.peak(), 6 * (1 + 1e-9));
  request.memory_of_actor.assign(4, 1.2);
  EXPECT_THAT([&] { search_schedule(request); },
              test::throws_error(ErrorCode::kResourceExhausted,
                                 "no schedule with a split vocabulary fits"));
}

TEST(SearchWithVocabulary, InterlacedVocabularyIsNotSearched) {
  EXPECT_THAT(
      [&] {
        search_schedule(with_vocabulary_of(request_of(2, 4, {}, 0), VocabularyMode::kInterlaced));
      },
      test::throws_error(ErrorCode::kInvalidArgument,
                         "goes with the schedule 1f1b, not with auto"));
}

}  // namespace
}  // namespace weft::mesh
