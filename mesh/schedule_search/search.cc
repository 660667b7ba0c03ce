#include "mesh/schedule_search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "mesh/schedule_search/internal/list_scheduler.h"
#include "mesh/schedule_search/internal/local_search.h"
#include "mesh/schedules/named_schedules.h"

namespace weft::mesh {
namespace {

/// A schedule that finishes and fits.
struct Candidate {
  std::string from;
  Schedule schedule;
  ScheduleScore score;
};

constexpr std::size_t kImproved = 4;  // candidates that local search goes on from

/// The named schedules that put their stages where the request wants them.
std::vector<Schedule> named_of_placement(const SearchRequest& request) {
  std::vector<Schedule> result;
  const int stages = static_cast<int>(request.actor_of_stage.size());
  const int actors = *std::ranges::max_element(request.actor_of_stage) + 1;
  if (stages % actors != 0) return result;
  const int chunks = stages / actors;
  for (const NamedSchedule& named : named_schedules()) {
    if (chunks != named.chunks && !named.any_chunks) continue;
    if (place_stages(named.placement, actors, chunks) != request.actor_of_stage) continue;
    result.push_back(make_schedule({std::string(named.name), actors, request.microbatches, chunks, 0}));
  }
  return result;
}

std::vector<ListPolicy> policies() {
  std::vector<ListPolicy> result;
  for (const double in_flight : {1.0, 1.5, 0.0, 1.25, 2.0, 0.75, 3.0, 0.5}) {
    for (const auto weights : {ListPolicy::Weights::kInGaps, ListPolicy::Weights::kLast, ListPolicy::Weights::kAtOnce}) {
      for (const bool forward_first : {false, true}) {
        for (const bool deep_first : {true, false}) result.push_back({in_flight, weights, forward_first, deep_first});
      }
    }
  }
  return result;
}

[[noreturn]] void nothing_fits(const SearchRequest& request) {
  std::vector<double> least(request.memory_of_actor.size(), 0);
  for (std::size_t stage = 0; stage < request.actor_of_stage.size(); ++stage) {
    least[static_cast<std::size_t>(request.actor_of_stage[stage])] += request.costs.stages[stage].activations;
  }
  for (std::size_t actor = 0; actor < least.size(); ++actor) {
    if (least[actor] <= request.memory_of_actor[actor]) continue;
    throw_error(ErrorCode::kResourceExhausted,
                "no schedule fits: actor {} has memory for {:.6g}, but one microbatch takes {:.6g} there", actor,
                request.memory_of_actor[actor], least[actor]);
  }
  throw_error(ErrorCode::kResourceExhausted,
              "no schedule was found that fits; activations and the tensors that are under way take more than every actor has");
}

void check(const SearchRequest& request) {
  if (request.actor_of_stage.empty() || request.microbatches < 1) {
    throw_error(ErrorCode::kInvalidArgument, "a schedule needs at least 1 stage and 1 microbatch, not {} and {}",
                request.actor_of_stage.size(), request.microbatches);
  }
  if (request.costs.stages.size() != request.actor_of_stage.size()) {
    throw_error(ErrorCode::kInvalidArgument, "there are {} stages, but {} have times", request.actor_of_stage.size(),
                request.costs.stages.size());
  }
  const auto actors = static_cast<std::size_t>(*std::ranges::max_element(request.actor_of_stage)) + 1;
  if (!request.memory_of_actor.empty() && request.memory_of_actor.size() != actors) {
    throw_error(ErrorCode::kInvalidArgument, "there are {} actors, but {} have a memory cap", actors,
                request.memory_of_actor.size());
  }
}

}  // namespace

SearchResult search_schedule(const SearchRequest& request) {
  check(request);
  SearchResult result;
  Judge judge(request);
  std::vector<Candidate> candidates;
  const auto consider = [&](std::string from, Schedule schedule) {
    const Judge::Verdict verdict = judge.judge(schedule);
    if (verdict.finishes && verdict.fits) candidates.push_back({std::move(from), std::move(schedule), verdict.score});
    return verdict;
  };
  for (Schedule& schedule : named_of_placement(request)) {
    const std::string name = schedule.name;
    const Judge::Verdict verdict = consider(name, std::move(schedule));
    result.named.push_back({name, verdict.score.makespan, verdict.peak, verdict.fits});
  }
  for (const ListPolicy& policy : policies()) {
    if (judge.exhausted()) break;
    if (std::optional<Schedule> schedule = list_schedule(request, policy)) consider("list scheduling", std::move(*schedule));
  }
  if (candidates.empty()) nothing_fits(request);
  std::ranges::stable_sort(candidates, {}, &Candidate::score);
  // Many policies come to the same: improve different ones only.
  std::vector<Candidate> best;
  for (Candidate& candidate : candidates) {
    const auto same = [&](const Candidate& other) { return other.schedule.actors == candidate.schedule.actors; };
    if (best.size() < kImproved && std::ranges::none_of(best, same)) best.push_back(std::move(candidate));
  }
  for (Candidate& candidate : best) {
    if (judge.exhausted()) break;
    candidate.schedule = improve(std::move(candidate.schedule), judge);
    candidate.score = judge.judge(candidate.schedule).score;
  }
  Candidate& winner = *std::ranges::min_element(best, {}, &Candidate::score);
  result.from = winner.from;
  result.schedule = std::move(winner.schedule);
  result.schedule.name = "auto";
  result.simulation = judge.play(result.schedule);
  result.simulated = judge.simulated();
  return result;
}

SearchResult search_placed_schedule(int actors, SearchRequest request, ScheduleCosts& placed_costs) {
  const ScheduleCosts whole = request.costs;
  std::optional<SearchResult> best;
  std::vector<SearchCandidate> named;
  std::int64_t simulated = 0;
  std::optional<Error> refused;
  for (const auto& [placement, chunks] : {std::pair(StagePlacement::kOnePerActor, 1), std::pair(StagePlacement::kLooped, 2),
                                          std::pair(StagePlacement::kVShaped, 2)}) {
    request.actor_of_stage = place_stages(placement, actors, chunks);
    request.costs = cut_in_chunks(whole, chunks);
    try {
      SearchResult found = search_schedule(request);
      named.insert(named.end(), found.named.begin(), found.named.end());
      simulated += found.simulated;
      if (best && best->simulation.makespan <= found.simulation.makespan) continue;
      best = std::move(found);
      placed_costs = request.costs;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResourceExhausted) throw;
      if (!refused) refused = error;
    }
  }
  if (!best) throw Error(*refused);
  best->named = std::move(named);
  best->simulated = simulated;
  return std::move(*best);
}

}  // namespace weft::mesh
