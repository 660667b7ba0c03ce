#include "mesh/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "mesh/schedule/duplex.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/search/internal/bounds.h"
#include "mesh/search/internal/local_search.h"
#include "mesh/search/internal/policy_search.h"
#include "mesh/search/internal/vocabulary_search.h"

namespace weft::mesh {
namespace {

/// Schedule that finishes and fits.
struct Candidate {
  std::string from;
  Schedule schedule;
  ScheduleScore score;
};

constexpr std::int64_t kCandidates = 15000;  // Most candidates, for a short schedule.
// Most actions, unless the minimum of candidates needs more.
constexpr std::int64_t kMostActions = 2'000'000;
constexpr std::int64_t kFewestCandidates = 50;  // Fewest candidates, for a long schedule.
// Policies of list scheduling that are tuned.
constexpr std::size_t kTuned = 8;
// Number of remaining candidates below which tuning gets the whole budget.
constexpr std::int64_t kFewMoves = 400;
constexpr std::size_t kImproved = 4;  // Candidates that local search improves.
constexpr std::size_t kAnnealed = 2;  // Best of these, which annealing improves.

/// Returns the named schedules with the request's placement, without compounds: a run dissolves
/// them.
std::vector<Schedule> named_of_placement(const SearchRequest& request) {
  std::vector<Schedule> result;
  const int stages = request.actor_of_stage.size();
  const int actors = num_actors(request.actor_of_stage);
  if (stages % actors != 0) return result;
  const int chunks = stages / actors;
  for (const NamedSchedule& named : named_schedules()) {
    if (chunks != named.chunks && !named.any_chunks) continue;
    if (place_stages(named.placement, actors, chunks) != request.actor_of_stage) continue;
    result.push_back(without_compounds(
        make_schedule({std::string(named.name), actors, request.microbatches, chunks, 0})));
  }
  return result;
}

[[noreturn]] void throw_nothing_fits(const SearchRequest& request) {
  if (request.memory_of_actor.empty())
    throw_error(ErrorCode::kInternal,
                "no schedule of {} stages on {} actors finishes, although memory is unlimited",
                request.actor_of_stage.size(), num_actors(request.actor_of_stage));
  std::vector<double> least(request.memory_of_actor.size(), 0);
  for (std::size_t stage = 0; stage < request.actor_of_stage.size(); ++stage) {
    least[request.actor_of_stage[stage]] += request.costs.stages[stage].activations;
  }
  for (std::size_t actor = 0; actor < least.size(); ++actor) {
    if (least[actor] <= request.memory_of_actor[actor]) continue;
    throw_error(
        ErrorCode::kResourceExhausted,
        "no schedule fits: actor {} has memory for {:.6g}, but one microbatch takes {:.6g} there",
        actor, request.memory_of_actor[actor], least[actor]);
  }
  throw_error(ErrorCode::kResourceExhausted,
              "no schedule that fits was found: activations and tensors in flight exceed the "
              "memory limit of some actor; raise the limit or use smaller microbatches");
}

void check(const SearchRequest& request) {
  if (request.actor_of_stage.empty() || request.microbatches < 1) {
    throw_error(ErrorCode::kInvalidArgument,
                "a schedule needs at least 1 stage and 1 microbatch, not {} and {}",
                request.actor_of_stage.size(), request.microbatches);
  }
  if (request.costs.stages.size() != request.actor_of_stage.size()) {
    throw_error(ErrorCode::kInvalidArgument, "there are {} stages, but costs are given for {}",
                request.actor_of_stage.size(), request.costs.stages.size());
  }
  const std::size_t actors = num_actors(request.actor_of_stage);
  if (!request.memory_of_actor.empty() && request.memory_of_actor.size() != actors) {
    throw_error(ErrorCode::kInvalidArgument, "there are {} actors, but {} have a memory cap",
                actors, request.memory_of_actor.size());
  }
  if (request.vocabulary == VocabularyMode::kInterlaced) {
    throw_error(ErrorCode::kInvalidArgument,
                "an interlaced vocabulary goes with the schedule 1f1b, not with auto; take vocab-1 "
                "or vocab-2");
  }
}

/// Returns the request with interfaces that serve in turn. These simulate several times faster than
/// fairly shared ones, and carry as much.
SearchRequest with_in_turn_interfaces(SearchRequest request) {
  request.costs.sharing = InterfaceSharing::kFifo;
  return request;
}

bool has_in_turn_interfaces(const SearchRequest& request) {
  return request.costs.nic_of_actor.empty() || request.costs.sharing == InterfaceSharing::kFifo;
}

class ScheduleSearch {
 public:
  /// `known_step`: step time of a schedule known already. If no schedule of this request can beat
  /// it, a named schedule suffices.
  ScheduleSearch(const SearchRequest& request, double known_step)
      : request_(request),
        in_turn_request_(with_in_turn_interfaces(request)),
        evaluator_(in_turn_request_),
        exact_(request_),
        known_step_(known_step) {
    result_.bound = lower_bound(request_);
    result_.bound_in_memory = lower_bound_in_memory(request_);
  }

  SearchResult run() {
    evaluate_named();
    if (!is_optimal()) try_lists();
    if (candidates_.empty() && finalists_.empty()) throw_nothing_fits(request_);
    if (!is_optimal()) move_actions();
    return choose();
  }

 private:
  /// Returns whether no better schedule can exist.
  bool is_optimal() const {
    if (!finalists_.empty() && result_.bound_in_memory >= known_step_) return true;
    return std::ranges::any_of(candidates_,
                               [&](const Candidate& one) { return is_least(one.score); });
  }
  bool is_least(const ScheduleScore& score) const {
    return score.step <= result_.bound_in_memory * (1 + 1e-12);
  }

  void evaluate_named() {
    for (Schedule& schedule : named_of_placement(request_)) {
      const ScheduleEvaluator::ScheduleEvaluation evaluation = exact_.evaluate_with_peak(schedule);
      const ScheduleEvaluator::ScheduleEvaluation roughly =
          has_in_turn_interfaces(request_) ? evaluation : evaluator_.evaluate(schedule);
      result_.named.push_back(
          {schedule.name, evaluation.makespan, evaluation.peak, evaluation.fits});
      if (roughly.finishes && roughly.fits)
        candidates_.push_back({schedule.name, schedule, roughly.score});
      if (evaluation.finishes && evaluation.fits)
        finalists_.push_back({schedule.name, std::move(schedule), evaluation.score});
    }
  }

  void try_lists() {
    PatternCandidates patterned = try_patterns(evaluator_);
    for (Schedule& schedule : patterned.unrolled) {
      const ScheduleScore score = evaluator_.evaluate(schedule).score;
      candidates_.push_back({"a periodic pattern", std::move(schedule), score});
    }
    if (is_optimal()) return;
    std::vector<ListCandidate> listed = try_uniform_policies(evaluator_);
    std::ranges::move(patterned.listed, std::back_inserter(listed));
    std::ranges::stable_sort(listed, {}, &ListCandidate::score);
    // Number of candidates that the budget still allows.
    const std::int64_t left_to_try =
        (request_.budget - evaluator_.simulated()) /
        num_actions(request_.actor_of_stage.size(), request_.microbatches);
    const std::size_t tuned_policies = std::clamp<std::int64_t>(left_to_try / 40, 1, kTuned);
    if (listed.size() > tuned_policies) listed.erase(listed.begin() + tuned_policies, listed.end());
    for (std::size_t i = 0; i < listed.size() && !is_optimal(); ++i) {
      if (!is_least(listed[i].score)) {
        // Each policy gets an equal share of half of the remaining budget. The other half is for
        // single moves, but a few moves are useless, so that tuning gets all then.
        const std::int64_t left = request_.budget - evaluator_.simulated();
        const auto share =
            left / (left_to_try < kFewMoves ? 1 : 2) / static_cast<std::int64_t>(listed.size() - i);
        listed[i] = tune_policy(std::move(listed[i]), evaluator_,
                                evaluator_.simulated() + std::max<std::int64_t>(share, 0));
      }
      candidates_.push_back({"list scheduling", std::move(listed[i].schedule), listed[i].score});
    }
  }

  void move_actions() {
    std::ranges::stable_sort(candidates_, {}, &Candidate::score);
    // Many policies give equal schedules: improve distinct ones only.
    std::vector<Candidate> best;
    for (Candidate& candidate : candidates_) {
      const auto same = [&](const Candidate& other) {
        return other.schedule.actors == candidate.schedule.actors;
      };
      if (best.size() < kImproved && std::ranges::none_of(best, same))
        best.push_back(std::move(candidate));
    }
    candidates_ = std::move(best);
    for (Candidate& candidate : candidates_) {
      if (evaluator_.exhausted() || is_optimal()) return;
      candidate.schedule = improve(std::move(candidate.schedule), evaluator_);
      candidate.score = evaluator_.evaluate(candidate.schedule).score;
    }
    std::ranges::stable_sort(candidates_, {}, &Candidate::score);
    for (std::size_t i = 0;
         i < std::min(candidates_.size(), kAnnealed) && !evaluator_.exhausted() && !is_optimal();
         ++i) {
      const std::int64_t left = request_.budget - evaluator_.simulated();
      Candidate& candidate = candidates_[i];
      candidate.schedule = anneal(std::move(candidate.schedule), evaluator_,
                                  left / static_cast<std::int64_t>(kAnnealed - i));
      candidate.score = evaluator_.evaluate(candidate.schedule).score;
    }
  }

  SearchResult choose() {
    std::ranges::stable_sort(candidates_, {}, &Candidate::score);
    if (candidates_.size() > kImproved)
      candidates_.erase(candidates_.begin() + kImproved, candidates_.end());
    for (Candidate& candidate : candidates_) {
      const ScheduleEvaluator::ScheduleEvaluation evaluation = exact_.evaluate(candidate.schedule);
      candidate.score = evaluation.score;
      if (evaluation.finishes && evaluation.fits) finalists_.push_back(std::move(candidate));
    }
    if (finalists_.empty()) throw_nothing_fits(request_);
    Candidate& winner = *std::ranges::min_element(finalists_, {}, &Candidate::score);
    result_.improved_from = winner.from;
    result_.schedule = std::move(winner.schedule);
    result_.schedule.name = "auto";
    result_.simulation = simulate(result_.schedule, request_.costs, request_.simulation);
    result_.simulated = evaluator_.simulated() + exact_.simulated();
    return std::move(result_);
  }

  const SearchRequest& request_;
  const SearchRequest
      in_turn_request_;  ///< Request of the search; `request_` decides the final choice.
  ScheduleEvaluator evaluator_, exact_;
  const double known_step_;
  SearchResult result_;
  std::vector<Candidate> candidates_, finalists_;
};

/// Searches for a schedule with a step below `known_step`. Throws as search_schedule() does.
SearchResult search_below(SearchRequest request, double known_step) {
  check(request);
  if (request.budget == 0)
    request.budget = search_budget(request.actor_of_stage.size(), request.microbatches);
  if (request.vocabulary == VocabularyMode::kLast) return ScheduleSearch(request, known_step).run();
  const auto search_plain = [](const SearchRequest& plain) {
    return ScheduleSearch(plain, std::numeric_limits<double>::infinity()).run();
  };
  return search_with_vocabulary(request, named_of_placement(request), search_plain);
}

}  // namespace

std::int64_t search_budget(std::size_t stages, int microbatches) {
  const std::int64_t actions = num_actions(stages, microbatches);
  return std::max(std::min(kCandidates * actions, kMostActions), kFewestCandidates * actions);
}

SearchResult search_schedule(const SearchRequest& request) {
  return search_below(request, std::numeric_limits<double>::infinity());
}

SearchResult search_placed_schedule(int actors, SearchRequest request,
                                    ScheduleCosts& placed_costs) {
  const ScheduleCosts whole = request.costs;
  std::optional<SearchResult> best;
  std::vector<SearchCandidate> named;
  std::int64_t simulated = 0;
  double bound = std::numeric_limits<double>::infinity(), bound_in_memory = bound;
  std::optional<Error> refused;
  for (const auto& [placement, chunks] :
       {std::pair(StagePlacement::kOnePerActor, 1), std::pair(StagePlacement::kLooped, 2),
        std::pair(StagePlacement::kVShaped, 2)}) {
    request.actor_of_stage = place_stages(placement, actors, chunks);
    request.costs = split_stages(whole, chunks);
    try {
      SearchResult found = search_below(
          request, best ? best->simulation.step_time : std::numeric_limits<double>::infinity());
      named.insert(named.end(), found.named.begin(), found.named.end());
      simulated += found.simulated;
      bound = std::min(bound, found.bound);
      bound_in_memory = std::min(bound_in_memory, found.bound_in_memory);
      if (best && best->simulation.step_time <= found.simulation.step_time) continue;
      best = std::move(found);
      placed_costs = request.costs;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResourceExhausted) throw;
      // A failed search does not prove that no schedule fits.
      bound = std::min(bound, lower_bound(request));
      bound_in_memory = std::min(bound_in_memory, lower_bound_in_memory(request));
      if (!refused) refused = error;
    }
  }
  if (!best) throw Error(*refused);
  best->named = std::move(named);
  best->simulated = simulated;
  best->bound = bound;
  best->bound_in_memory = bound_in_memory;
  return std::move(*best);
}

}  // namespace weft::mesh
