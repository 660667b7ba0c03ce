#include "mesh/schedule_search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "mesh/schedule_search/internal/local_search.h"
#include "mesh/schedule_search/internal/policy_search.h"
#include "mesh/schedules/named_schedules.h"

namespace weft::mesh {
namespace {

/// A schedule that finishes and fits.
struct Candidate {
  std::string from;
  Schedule schedule;
  ScheduleScore score;
};

constexpr std::int64_t kCandidates = 15000;       // that a short schedule is worth,
constexpr std::int64_t kMostActions = 4'000'000;  // but not more actions than these,
constexpr std::int64_t kFewestCandidates = 50;    // and that a long one is worth in any case
constexpr std::size_t kTuned = 8;                 // policies of list scheduling that are changed one by one
constexpr std::int64_t kFewMoves = 400;           // candidates
constexpr std::size_t kImproved = 4;              // candidates that local search goes on from
constexpr std::size_t kAnnealed = 2;              // and of these the best, by random moves

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

/// An actor cannot start before the first microbatch has come to one of its stages, and then has all its work to do; the step
/// ends with what all do together.
double lower_bound(const SearchRequest& request) {
  if (request.costs.pair_time > 0 && request.costs.pair_time < 1) return 0;  // compounds make the work less
  const std::size_t stages = request.actor_of_stage.size();
  const std::size_t actors = static_cast<std::size_t>(*std::ranges::max_element(request.actor_of_stage)) + 1;
  std::vector<double> arrives(stages, 0), start(actors, std::numeric_limits<double>::infinity()), work(actors, 0);
  for (std::size_t s = 0; s < stages; ++s) {
    const int stage = static_cast<int>(s);
    for (const EdgeCosts& edge : request.costs.edges) {
      if (edge.edge.to != stage || edge.edge.from > stage) continue;
      const auto from = static_cast<std::size_t>(edge.edge.from);
      const double made = duration(request.costs, {edge.edge.from, ActionKind::kForward, 0});
      const TensorTiming& timing = edge.forward_timing;
      if (request.actor_of_stage[from] == request.actor_of_stage[s]) {
        arrives[s] = std::max(arrives[s], arrives[from] + made);
      } else if (timing.exists) {
        // Its user may have begun before it comes.
        const double used = duration(request.costs, {stage, ActionKind::kForward, 0});
        arrives[s] = std::max(arrives[s], arrives[from] + timing.made * made + edge.forward - timing.needed * used);
      }
    }
    const auto actor = static_cast<std::size_t>(request.actor_of_stage[s]);
    start[actor] = std::min(start[actor], arrives[s]);
    work[actor] += request.microbatches * (duration(request.costs, {stage, ActionKind::kForward, 0}) +
                                           duration(request.costs, {stage, ActionKind::kBackward, 0})) +
                   request.costs.stages[s].reduce_grad;
  }
  double bound = 0, optimizer = 0;
  for (const StageCosts& stage : request.costs.stages) optimizer = std::max(optimizer, stage.optimizer);
  for (std::size_t actor = 0; actor < actors; ++actor) {
    if (work[actor] > 0) bound = std::max(bound, start[actor] + work[actor]);
  }
  return bound + request.costs.exchange + optimizer;
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

/// Interfaces that are shared fairly take several times as long to play as interfaces that serve in turn, and carry as much.
SearchRequest with_quick_interfaces(SearchRequest request) {
  request.costs.sharing = InterfaceSharing::kInTurn;
  return request;
}

bool has_quick_interfaces(const SearchRequest& request) {
  return request.costs.nic_of_actor.empty() || request.costs.sharing == InterfaceSharing::kInTurn;
}

}  // namespace

std::int64_t search_budget(std::size_t stages, int microbatches) {
  const std::int64_t actions = num_actions(stages, microbatches);
  return std::max(std::min(kCandidates * actions, kMostActions), kFewestCandidates * actions);
}

SearchResult search_schedule(const SearchRequest& asked) {
  check(asked);
  SearchRequest request = asked;
  if (request.budget == 0) request.budget = search_budget(request.actor_of_stage.size(), request.microbatches);
  SearchResult result;
  result.bound = lower_bound(request);
  const double enough = result.bound * (1 + 1e-12);
  // Searched with the one, chosen with the other.
  const SearchRequest quick = with_quick_interfaces(request);
  Judge judge(quick), exact(request);
  std::vector<Candidate> candidates, finalists;
  for (Schedule& schedule : named_of_placement(request)) {
    const Judge::Verdict verdict = exact.judge_fully(schedule);
    const Judge::Verdict roughly = has_quick_interfaces(request) ? verdict : judge.judge(schedule);
    result.named.push_back({schedule.name, verdict.makespan, verdict.peak, verdict.fits});
    if (roughly.finishes && roughly.fits) candidates.push_back({schedule.name, schedule, roughly.score});
    if (verdict.finishes && verdict.fits) finalists.push_back({schedule.name, std::move(schedule), verdict.score});
  }
  std::vector<Listed> listed = try_uniform_policies(judge);
  // So many more candidates can be tried.
  const std::int64_t left_to_try =
      (request.budget - judge.simulated()) / num_actions(request.actor_of_stage.size(), request.microbatches);
  const auto tuned_policies = static_cast<std::size_t>(std::clamp<std::int64_t>(left_to_try / 40, 1, kTuned));
  if (listed.size() > tuned_policies) listed.erase(listed.begin() + static_cast<std::ptrdiff_t>(tuned_policies), listed.end());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (listed[i].score.step <= enough) {
      // Nothing is faster; the others need no tuning.
      candidates.push_back({"list scheduling", std::move(listed[i].schedule), listed[i].score});
      break;
    }
    // An equal share of half of the effort that is left; the other half is for single moves, of which a few lead nowhere.
    const std::int64_t left = request.budget - judge.simulated();
    const auto share = left / (left_to_try < kFewMoves ? 1 : 2) / static_cast<std::int64_t>(listed.size() - i);
    Listed tuned = tune(std::move(listed[i]), judge, judge.simulated() + std::max<std::int64_t>(share, 0));
    candidates.push_back({"list scheduling", std::move(tuned.schedule), tuned.score});
  }
  if (candidates.empty() && finalists.empty()) nothing_fits(request);
  std::ranges::stable_sort(candidates, {}, &Candidate::score);
  // Many policies come to the same: improve different ones only.
  std::vector<Candidate> best;
  for (Candidate& candidate : candidates) {
    const auto same = [&](const Candidate& other) { return other.schedule.actors == candidate.schedule.actors; };
    if (best.size() < kImproved && std::ranges::none_of(best, same)) best.push_back(std::move(candidate));
  }
  const auto reached = [&] { return std::ranges::min_element(best, {}, &Candidate::score)->score.step <= enough; };
  for (Candidate& candidate : best) {
    if (judge.exhausted() || reached()) break;
    candidate.schedule = improve(std::move(candidate.schedule), judge);
    candidate.score = judge.judge(candidate.schedule).score;
  }
  std::ranges::stable_sort(best, {}, &Candidate::score);
  for (std::size_t i = 0; i < std::min(best.size(), kAnnealed) && !judge.exhausted() && !reached(); ++i) {
    const std::int64_t left = request.budget - judge.simulated();
    best[i].schedule = anneal(std::move(best[i].schedule), judge, left / static_cast<std::int64_t>(kAnnealed - i));
    best[i].score = judge.judge(best[i].schedule).score;
  }
  for (Candidate& candidate : best) {
    const Judge::Verdict verdict = exact.judge(candidate.schedule);
    candidate.score = verdict.score;
    if (verdict.finishes && verdict.fits) finalists.push_back(std::move(candidate));
  }
  if (finalists.empty()) nothing_fits(request);
  Candidate& winner = *std::ranges::min_element(finalists, {}, &Candidate::score);
  result.from = winner.from;
  result.schedule = std::move(winner.schedule);
  result.schedule.name = "auto";
  result.simulation = simulate(result.schedule, request.costs, request.simulation);
  result.simulated = judge.simulated() + exact.simulated();
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
