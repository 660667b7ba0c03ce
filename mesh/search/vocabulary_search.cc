#include "mesh/search/internal/vocabulary_search.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mesh/schedule/vocabulary.h"
#include "mesh/search/internal/bounds.h"
#include "mesh/search/internal/local_search.h"

namespace weft::mesh {
namespace {

struct PassCandidate {
  std::string from;
  Schedule schedule;
  ScheduleScore score;
};

constexpr std::size_t kMaxImproved = 3;  // Candidates whose single actions are moved.
// Slowdown of simulate() against SearchEvaluator.
constexpr std::int64_t kNoiseFactor = 16;

/// Returns the request for the stages alone. Its memory limits leave room for the microbatches that
/// barriers add.
SearchRequest without_vocabulary(const SearchRequest& request) {
  SearchRequest plain = request;
  plain.vocabulary = VocabularyMode::kLast;
  if (plain.memory_of_actor.empty()) return plain;
  for (std::size_t stage = 0; stage < request.actor_of_stage.size(); ++stage) {
    plain.memory_of_actor[request.actor_of_stage[stage]] -=
        vocabulary_barriers(request.vocabulary) * request.costs.stages[stage].activations;
  }
  return plain;
}

/// Returns the work of the busiest actor in a step, in seconds.
double busiest_actor_work(const SearchRequest& request) {
  std::vector<double> work(num_actors(request.actor_of_stage), 0);
  std::vector<bool> named(work.size(), false);
  for (std::size_t stage = 0; stage < request.actor_of_stage.size(); ++stage) {
    const StageCosts& one = request.costs.stages[stage];
    const std::size_t actor = request.actor_of_stage[stage];
    double seconds = one.forward + one.input_grad + one.weight_grad;
    // The actor's lowest stage carries the costs of its passes.
    if (!named[actor]) {
      seconds +=
          one.vocabulary_scores + one.vocabulary_grads + one.input_forward + one.input_backward;
    }
    named[actor] = true;
    work[actor] += request.microbatches * seconds;
  }
  return *std::ranges::max_element(work);
}

}  // namespace

SearchResult search_with_vocabulary(const SearchRequest& whole, std::span<const Schedule> named,
                                    SearchResult (*search_plain)(const SearchRequest& request)) {
  SearchRequest request = whole;
  request.budget /= kNoiseFactor;
  const VocabularyTimes times = vocabulary_times(request.costs, request.actor_of_stage);
  ScheduleEvaluator evaluator(request);
  SearchResult result;
  std::vector<PassCandidate> candidates;
  const auto add = [&](std::string from, Schedule schedule) {
    const ScheduleEvaluator::ScheduleEvaluation evaluation = evaluator.evaluate_with_peak(schedule);
    if (evaluation.finishes && evaluation.fits)
      candidates.push_back({std::move(from), std::move(schedule), evaluation.score});
    return evaluation;
  };
  // The same times without the lower bound for transfers.
  VocabularyTimes exact = times;
  exact.min_transfer = 0;
  for (const Schedule& one : named) {
    const ScheduleEvaluator::ScheduleEvaluation evaluation =
        add(one.name, with_vocabulary(one, request.vocabulary, times));
    result.named.push_back({one.name, evaluation.makespan, evaluation.peak, evaluation.fits});
    add(one.name, with_vocabulary(one, request.vocabulary, exact));
  }
  // If the search finds nothing that fits, a named schedule may still fit.
  std::optional<Error> refused;
  try {
    SearchResult plain = search_plain(without_vocabulary(whole));
    result.simulated = plain.simulated;
    for (const VocabularyTimes& each : {times, exact})
      add(plain.improved_from, with_vocabulary(plain.schedule, request.vocabulary, each));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) throw;
    refused = error;
  }
  if (candidates.empty()) {
    throw_error(ErrorCode::kResourceExhausted,
                "no schedule with a split vocabulary fits: each actor holds {} more microbatch{} "
                "than without; set pipeline.vocabulary to last, or raise the memory limit{}",
                vocabulary_barriers(request.vocabulary),
                vocabulary_barriers(request.vocabulary) == 1 ? "" : "es",
                refused ? ": " + refused->message() : "");
  }
  std::ranges::stable_sort(candidates, {}, &PassCandidate::score);
  if (candidates.size() > kMaxImproved) candidates.resize(kMaxImproved);
  for (PassCandidate& candidate : candidates) {
    if (evaluator.exhausted()) break;
    candidate.schedule = improve(std::move(candidate.schedule), evaluator);
    candidate.score = evaluator.evaluate(candidate.schedule).score;
  }
  PassCandidate& winner = *std::ranges::min_element(candidates, {}, &PassCandidate::score);
  result.improved_from = std::move(winner.from);
  result.schedule = std::move(winner.schedule);
  result.schedule.name = "auto";
  result.simulation = simulate(result.schedule, request.costs, request.simulation);
  result.simulated += evaluator.simulated();
  // Vocabulary passes only add work and memory to those of the stages.
  result.bound = std::max(lower_bound(request), busiest_actor_work(request));
  result.bound_in_memory = std::max(result.bound, lower_bound_in_memory(request));
  return result;
}

}  // namespace weft::mesh
