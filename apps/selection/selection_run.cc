#include "apps/selection/selection_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/base/sha256.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

std::uint64_t sum(const std::vector<std::uint64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

}  // namespace

template <typename Phase>
auto SelectionRun::run_with_recovery(const Phase& phase) {
  return workers_.run_with_recovery(phase, [this] {
    ++summary_.recoveries;
    begin();
  });
}

void SelectionRun::begin() {
  plan_.settings.discard_state = discard_state_;
  const auto sets = workers_.all()
                        .within(actors::kNoDeadline)
                        .call<&SelectionWorker::begin>(plan_.settings)
                        .get();
  summary_.ground_set = sets.front();
  discard_state_ = false;
}

void SelectionRun::check_state() {
  const bool has_bounds = !progress_.decided.empty() || progress_.bounding_done;
  if (!has_bounds && progress_.round == 0) return;
  const std::uint64_t missing = sum(run_with_recovery([&](const auto& workers) {
    return workers
        .template call<&SelectionWorker::missing>(has_bounds && plan_.settings.use_bounding,
                                                  progress_.round)
        .get();
  }));
  if (missing == 0) return;
  report("the state of the earlier run no longer exists in scratch; the selection restarts");
  progress_ = {};
  discard_state_ = true;
  run_with_recovery([&](const auto&) {
    if (discard_state_) begin();  // a recovery has begun already
    return 0;
  });
}

KthLargest SelectionRun::find(RankedValue what, std::uint64_t k) {
  KthLargest search(k);
  while (!search.is_found()) {
    KthLargest::Counts counts(KthLargest::kBins, 0);
    const auto all = run_with_recovery([&](const auto& workers) {
      return workers.template call<&SelectionWorker::count>(CountRequest{what, search}).get();
    });
    for (const auto& each : all)
      for (std::size_t bin = 0; bin < counts.size(); ++bin) counts[bin] += each.at(bin);
    search.end_pass(counts);
  }
  return search;
}

void SelectionRun::bound() {
  BoundingLoop loop(summary_.ground_set.points, plan_.settings.count);
  const TimePoint began = clock_.now();
  if (progress_.decided.empty() && !progress_.bounding_done) {
    run_with_recovery([](const auto& workers) {
      workers.template call<&SelectionWorker::initialise_bounds>().get();
      return 0;
    });
  }
  const std::vector<std::uint64_t> before = progress_.decided;
  for (const std::uint64_t decided : before) loop.report_decided(decided);
  TimePoint step_began = began;
  for (; loop.next() != BoundingLoop::BoundingStep::kDone;) {
    BoundRequest request{loop.steps(), loop.next(), 0, 0};
    if (loop.next() == BoundingLoop::BoundingStep::kShrink)
      request.threshold = find(RankedValue::kAtLeast, loop.wanted()).value();
    if (loop.next() == BoundingLoop::BoundingStep::kGrow)
      request.threshold = find(RankedValue::kAtMost, loop.wanted()).value();
    const std::uint64_t decided = sum(run_with_recovery([&](const auto& workers) {
      return workers.template call<&SelectionWorker::decide>(request).get();
    }));
    if (decided > 0 || plan_.settings.resample_edges) {
      run_with_recovery([&](const auto& workers) {
        request.exchange = workers_.next_exchange();
        return workers.template call<&SelectionWorker::propagate_decisions>(request).get();
      });
    }
    loop.report_decided(decided);
    progress_.decided.push_back(decided);
    const TimePoint now = clock_.now();
    progress_.step_seconds.push_back(in_seconds(now - step_began));
    step_began = now;
    save_progress();
  }
  progress_.bounding_done = true;
  save_progress();
  open_ = loop.open();
  wanted_ = loop.wanted();
  summary_.bounding_steps = loop.steps() - 1;
  summary_.accepted = plan_.settings.count - wanted_;
  summary_.discarded = summary_.ground_set.points - open_ - summary_.accepted;
  report(fmt::format("bounding: {} steps accepted {} points and discarded {}, {} are open, {}",
                     summary_.bounding_steps, summary_.accepted, summary_.discarded, open_,
                     format_seconds(in_seconds(clock_.now() - began))));
}

RoundResult SelectionRun::run_round(std::uint32_t round, const PlannedRound& planned) {
  RoundResult result;
  result.partitions = planned.partitions;
  result.points = run_with_recovery([&](const auto& workers) {
    const ShuffleRequest shuffle{workers_.next_exchange(), round, result.partitions};
    std::vector<std::uint64_t> sizes(result.partitions, 0);
    for (const auto& of_worker :
         workers.template call<&SelectionWorker::send_to_partitions>(shuffle).get())
      for (const PartitionSize& size : of_worker) sizes.at(size.partition) = size.points;
    if (sum(sizes) != planned.points)
      throw_error(ErrorCode::kDataLoss,
                  "round {}: {} points were sent to partitions, but {} remain; the state is "
                  "damaged: start the run again",
                  round, sum(sizes), planned.points);
    result.largest = *std::ranges::max_element(sizes);
    const ChooseRequest choose{workers_.next_exchange(), round, round == plan_.rounds.rounds,
                               partition_quotas(planned.stay, sizes)};
    return sum(workers.template call<&SelectionWorker::choose>(choose).get());
  });
  if (result.points != planned.stay)
    throw_error(ErrorCode::kDataLoss,
                "round {} leaves {} points, expected {}; the state is damaged: start the run again",
                round, result.points, planned.stay);
  return result;
}

std::uint32_t SelectionRun::choose_in_rounds() {
  RoundOptions rounds = plan_.rounds;
  rounds.count = wanted_;
  // Partitions have the same capacity as without bounding.
  rounds.capacity = (summary_.ground_set.points + rounds.partitions - 1) / rounds.partitions;
  if (wanted_ == 0) rounds.rounds = 0;
  for (const PlannedRound& planned : plan_rounds(open_, rounds)) {
    const auto round = static_cast<std::uint32_t>(summary_.rounds.size() + 1);
    if (round > progress_.round) {
      const TimePoint began = clock_.now();
      RoundResult result = run_round(round, planned);
      result.seconds = in_seconds(clock_.now() - began);
      progress_.rounds.push_back(result);
      progress_.round = round;
      save_progress();
      report(fmt::format("round {} of {}: {} points in {} partition{}, {} stay, {}", round,
                         rounds.rounds, planned.points, planned.partitions,
                         planned.partitions == 1 ? "" : "s", planned.stay,
                         format_seconds(result.seconds)));
    }
    summary_.point_visits += planned.points;
    summary_.rounds.push_back(progress_.rounds.at(round - 1));
  }
  return rounds.rounds;
}

void SelectionRun::score(std::uint32_t last_round) {
  const std::int64_t draw_from = find(RankedValue::kDraw, plan_.settings.count).value();
  const auto reports = run_with_recovery([&](const auto& workers) {
    return workers
        .template call<&SelectionWorker::score>(
            ScoreRequest{workers_.next_exchange(), last_round, draw_from})
        .get();
  });
  for (const ScoreReport& report : reports) {
    summary_.chosen += report.chosen;
    summary_.score += report.score;
    summary_.random_score += report.random_score;
  }
  if (summary_.chosen != plan_.settings.count)
    throw_error(ErrorCode::kDataLoss,
                "{} points are chosen, expected {}; the state is damaged: start the run again",
                summary_.chosen, plan_.settings.count);
  std::string digests;
  for (const auto& of_worker : run_with_recovery([](const auto& workers) {
         return workers.template call<&SelectionWorker::digests>().get();
       }))
    for (const std::string& digest : of_worker) digests += digest;
  summary_.digest = sha256(std::as_bytes(std::span(digests)));
}

SelectionSummary SelectionRun::run(SelectionProgress progress) {
  progress_ = std::move(progress);
  discard_state_ = progress_.decided.empty() && !progress_.bounding_done && progress_.round == 0;
  run_with_recovery([&](const auto&) {
    // a recovery has begun already
    if (summary_.ground_set.points == 0) begin();
    return 0;
  });
  check_state();
  const std::uint64_t points = summary_.ground_set.points;
  if (plan_.settings.count < 1 || plan_.settings.count > points)
    throw_error(ErrorCode::kInvalidArgument,
                "{} of {} points cannot be chosen; choose from 1 to all of them",
                plan_.settings.count, points);
  open_ = points;
  wanted_ = plan_.settings.count;
  if (plan_.settings.use_bounding) bound();
  score(choose_in_rounds());
  summary_.workers = run_with_recovery([](const auto& workers) {
    return workers.template call<&SelectionWorker::resource_usage>().get();
  });
  return summary_;
}

void SelectionRun::each_result(const std::function<void(const ResultPoint&)>& visit) {
  const auto owners = run_with_recovery(
      [](const auto& workers) { return workers.template call<&SelectionWorker::shards>().get(); });
  for (std::size_t rank = 0; rank < owners.size(); ++rank) {
    for (const std::uint32_t shard : owners[rank]) {
      for (std::uint64_t first = 0;;) {
        const auto part = run_with_recovery([&](const auto& workers) {
          return workers.rank(static_cast<std::int64_t>(rank))
              .template call<&SelectionWorker::results>(shard, first)
              .get();
        });
        if (part.empty()) break;
        for (const ResultPoint& point : part) visit(point);
        first += part.size();
      }
    }
  }
}

std::vector<PointNeighbour> SelectionRun::neighbours_of(const std::vector<PointId>& points) {
  std::vector<PointNeighbour> neighbours;
  for (const auto& of_worker : run_with_recovery([&](const auto& workers) {
         return workers.template call<&SelectionWorker::neighbours_of>(points).get();
       }))
    neighbours.insert(neighbours.end(), of_worker.begin(), of_worker.end());
  return neighbours;
}

}  // namespace weft::apps
