#include "apps/selection/graph_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

/// Version of the algorithm. Increased when the same input and settings give another graph.
constexpr int kGraphVersion = 3;

SearchCount sum(const std::vector<SearchCount>& counts) {
  SearchCount all;
  for (const SearchCount& count : counts) {
    all.pairs += count.pairs;
    all.scans += count.scans;
  }
  return all;
}

}  // namespace

std::uint32_t default_num_cells(std::uint64_t points) {
  return std::bit_ceil(static_cast<std::uint32_t>(std::sqrt(static_cast<double>(points))));
}

template <typename Phase>
auto GraphRun::run_with_recovery(const Phase& phase) {
  return workers_.run_with_recovery(phase, [this] {
    ++summary_.recoveries;
    begin();
  });
}

void GraphRun::distribute_input() {
  const GraphSettings& settings = plan_.settings;
  const auto seen = workers_.all()
                        .within(actors::kNoDeadline)
                        .call<&GraphWorker::inspect_input>(settings.input)
                        .get();
  FetchRequest request{workers_.next_exchange(),
                       settings.input,
                       settings.scratch,
                       settings.shards,
                       settings.exchange_budget,
                       0,
                       {},
                       false};
  const auto has_all = [](const InputStatus& of_host) { return of_host.missing.empty(); };
  const auto holder = std::ranges::find_if(seen, has_all);
  if (holder == seen.end())
    throw_error(ErrorCode::kNotFound,
                "{}: no host of a worker has the input; copy it (or the scratch folder) to one of "
                "these hosts, or start the run there",
                seen.front().missing);
  request.holder = holder_ = static_cast<std::uint32_t>(holder - seen.begin());
  for (std::uint32_t rank = 0; rank < seen.size(); ++rank) {
    if (!has_all(seen[rank])) request.lacking.push_back(rank);
    else if (seen[rank].sizes != holder->sizes)
      throw_error(
          ErrorCode::kInvalidArgument,
          "the input {} differs between the hosts of workers {} and {}: remove one of the two "
          "files",
          settings.input.has_neighbours() ? settings.input.neighbours : settings.input.vectors,
          rank, holder_);
  }
  if (request.lacking.empty()) return;
  request.all_rows = !settings.input.has_neighbours() && holder->points < plan_.exact_below;
  std::uint64_t bytes = 0;
  for (const std::uint64_t of_worker :
       workers_.all().within(actors::kNoDeadline).call<&GraphWorker::fetch>(request).get())
    bytes += of_worker;
  report(fmt::format("input: the hosts of {} of {} workers do not have it; worker {} sent them {}",
                     request.lacking.size(), seen.size(), holder_, format_bytes(bytes)));
}

void GraphRun::begin() {
  distribute_input();
  plan_.settings.discard_state = discard_state_;
  const auto shapes =
      workers_.all().within(actors::kNoDeadline).call<&GraphWorker::begin>(plan_.settings).get();
  shape_ = shapes.front();
  for (std::size_t rank = 0; !begun_ && rank < shapes.size(); ++rank) {
    const GraphShape& shape = shapes[rank];
    if (rank > 0 && shape.verify_search == shape_.verify_search && shape.search == shape_.search)
      continue;
    if (!shape.verify_search.empty())
      report(fmt::format("worker {}: {}", rank, shape.verify_search));
    else if (shape.search != shape_.search)
      report(
          fmt::format("worker {} compares vectors by {}, worker 0 by {}: another number of "
                      "workers may find other neighbours where similarities are nearly equal",
                      rank, shape.search, shape_.search));
  }
  discard_state_ = false;
  begun_ = true;
}

std::string GraphRun::inspect() {
  std::map<std::uint32_t, InputShard> shards;
  for (const auto& of_worker : run_with_recovery([](const auto& workers) {
         return workers.template call<&GraphWorker::validate_rows>().get();
       }))
    for (const InputShard& shard : of_worker) shards[shard.shard] = shard;
  if (shards.size() != shape_.shards)
    throw_error(ErrorCode::kInternal,
                "only {} of {} shards of the input were read; start the run again", shards.size(),
                shape_.shards);
  float least = shards.begin()->second.least_utility, largest = least;
  std::string text = fmt::format(
      "graph {} of {} x {} in {} shards: {} neighbours from {}, seed {}, recall {} from {}, exact "
      "below {}, {} "
      "cells;",
      kGraphVersion, shape_.points, shape_.dimensions, shape_.shards, plan_.settings.count,
      plan_.settings.floor, plan_.settings.seed, plan_.recall, plan_.probes, plan_.exact_below,
      plan_.cells);
  for (const auto& [number, shard] : shards) {
    text += shard.digest;
    least = std::min(least, shard.least_utility);
    largest = std::max(largest, shard.largest_utility);
  }
  // Keeps the scale of utilities if their range is at most 1.
  link_.least_utility = least;
  link_.utility_scale = 1 / std::max(largest - least, 1.0F);
  return sha256(std::as_bytes(std::span(text)));
}

bool GraphRun::find_existing_store() {
  const auto of_workers = run_with_recovery([&](const auto& workers) {
    return workers.template call<&GraphWorker::read_manifest>(summary_.digest).get();
  });
  const std::string& text = of_workers.front();
  // Compares all workers, as each host has its own shards and its own graph.json.
  if (text.empty() || std::ranges::count(of_workers, text) != std::ssize(of_workers)) return false;
  try {
    const nlohmann::json manifest = nlohmann::json::parse(text);
    summary_.exact = manifest.at("exact").get<bool>();
    summary_.recall = manifest.at("recall").get<double>();
    summary_.samples = manifest.at("samples").get<std::uint32_t>();
    summary_.cells = manifest.at("cells").get<std::uint32_t>();
    summary_.probes = manifest.at("probes").get<std::uint32_t>();
    summary_.search = manifest.at("search").get<std::string>();
    summary_.directed_edges = manifest.at("directed_edges").get<std::uint64_t>();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return true;
}

bool GraphRun::has_saved_state(const GraphProgress& progress) {
  if (!progress.compared && progress.cells == 0 && progress.probes == 0) return true;
  std::uint64_t missing = 0;
  for (const std::uint64_t of_worker : run_with_recovery([&](const auto& workers) {
         return workers
             .template call<&GraphWorker::missing>(progress.compared, progress.cells,
                                                   progress.probes)
             .get();
       }))
    missing += of_worker;
  return missing == 0;
}

void GraphRun::find_copies() {
  std::uint64_t copies = 0;
  for (const std::uint64_t of_worker : run_with_recovery([&](const auto& workers) {
         return workers.template call<&GraphWorker::find_copies>(workers_.next_exchange()).get();
       }))
    copies += of_worker;
  run_with_recovery([&](const auto& workers) {
    workers.template call<&GraphWorker::share_copies>(workers_.next_exchange()).get();
    return 0;
  });
  if (copies > 0)
    report(
        fmt::format("graph: {} of {} points are copies of others; one of equal points is chosen "
                    "before any copy",
                    copies, shape_.points));
}

void GraphRun::compare_all() {
  if (progress_.compared) return;
  const TimePoint began = clock_.now();
  summary_.compared = sum(run_with_recovery(
      [](const auto& workers) { return workers.template call<&GraphWorker::search_all>().get(); }));
  summary_.search_seconds = in_seconds(clock_.now() - began);
  report(fmt::format("graph: all {} points compared with each other, {}", shape_.points,
                     format_seconds(summary_.search_seconds)));
  progress_.compared = true;
  save_progress();
}

double GraphRun::recall_of(const std::vector<std::vector<std::uint16_t>>& exact,
                           std::uint32_t probes) {
  std::uint64_t wanted = 0, found = 0;
  for (const auto& of_worker : run_with_recovery([&](const auto& workers) {
         return workers.template call<&GraphWorker::sampled_results>(probes).get();
       })) {
    for (const SampledNeighbours& sample : of_worker) {
      // Any neighbour that is as similar as the last exact one counts.
      const std::vector<std::uint16_t>& right = exact.at(sample.sample);
      wanted += right.size();
      found += std::min<std::uint64_t>(
          right.size(), std::ranges::count_if(sample.similarities, [&](std::uint16_t similarity) {
            return !right.empty() && similarity >= right.back();
          }));
    }
  }
  return wanted == 0 ? 1 : static_cast<double>(found) / static_cast<double>(wanted);
}

void GraphRun::train() {
  const TimePoint began = clock_.now();
  run_with_recovery([&](const auto& workers) {
    workers
        .template call<&GraphWorker::train>(
            TrainRequest{workers_.next_exchange(), summary_.cells, holder_})
        .get();
    return 0;
  });
  report(fmt::format("graph: {} cells for {} points, {}", summary_.cells, shape_.points,
                     format_seconds(in_seconds(clock_.now() - began))));
  progress_.cells = summary_.cells;
  save_progress();
}

std::vector<std::vector<std::uint16_t>> GraphRun::exact_of_samples() {
  const TimePoint began = clock_.now();
  std::vector<std::vector<std::uint16_t>> exact;
  for (const auto& of_worker : run_with_recovery([](const auto& workers) {
         return workers.template call<&GraphWorker::exact_neighbours_of_samples>().get();
       })) {
    exact.resize(of_worker.size());
    for (const SampledNeighbours& sample : of_worker) {
      std::vector<std::uint16_t>& all = exact.at(sample.sample);
      all.insert(all.end(), sample.similarities.begin(), sample.similarities.end());
    }
  }
  for (std::vector<std::uint16_t>& all : exact) {
    std::ranges::sort(all, std::greater());
    all.resize(std::min<std::size_t>(all.size(), plan_.settings.count));
  }
  summary_.samples = static_cast<std::uint32_t>(exact.size());
  report(fmt::format("graph: {} points compared with all, {}", exact.size(),
                     format_seconds(in_seconds(clock_.now() - began))));
  return exact;
}

void GraphRun::probe() {
  summary_.exact = false;
  summary_.cells = plan_.cells > 0 ? plan_.cells : default_num_cells(shape_.points);
  summary_.cells = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(summary_.cells, std::max<std::uint64_t>(shape_.points / 8, 1)));
  if (progress_.cells == 0) train();
  const std::vector<std::vector<std::uint16_t>> exact = exact_of_samples();
  summary_.probes = progress_.probes;
  summary_.recall = progress_.recall;
  while (summary_.probes == 0 ||
         (summary_.recall < plan_.recall && summary_.probes < summary_.cells)) {
    const std::uint32_t from = summary_.probes;
    const std::uint32_t past =
        std::min(from == 0 ? std::max(plan_.probes, 1U) : 2 * from, summary_.cells);
    const TimePoint began = clock_.now();
    const SearchCount count = sum(run_with_recovery([&](const auto& workers) {
      workers
          .template call<&GraphWorker::scatter>(ProbeRequest{workers_.next_exchange(), from, past})
          .get();
      return workers
          .template call<&GraphWorker::search>(ProbeRequest{workers_.next_exchange(), from, past})
          .get();
    }));
    summary_.compared = sum({summary_.compared, count});
    const double seconds = in_seconds(clock_.now() - began);
    summary_.search_seconds += seconds;
    summary_.recall = recall_of(exact, past);
    summary_.probes = past;
    report(fmt::format(
        "graph: each point in its {} nearest of {} cells: recall {:.4f} of {} "
        "sampled points, {}",
        past, summary_.cells, summary_.recall, summary_.samples, format_seconds(seconds)));
    progress_.probes = past;
    progress_.recall = summary_.recall;
    save_progress();
  }
}

void GraphRun::finish() {
  const TimePoint began = clock_.now();
  link_.probes = summary_.exact ? 0 : summary_.probes;
  summary_.directed_edges = 0;
  for (const std::uint64_t edges : run_with_recovery([&](const auto& workers) {
         link_.exchange = workers_.next_exchange();
         return workers.template call<&GraphWorker::link>(link_).get();
       }))
    summary_.directed_edges += edges;
  const nlohmann::ordered_json manifest = {
      {"digest", summary_.digest}, {"exact", summary_.exact},
      {"recall", summary_.recall}, {"samples", summary_.samples},
      {"cells", summary_.cells},   {"probes", summary_.probes},
      {"search", summary_.search}, {"directed_edges", summary_.directed_edges}};
  run_with_recovery([&](const auto& workers) {
    workers
        .template call<&GraphWorker::publish_store>(manifest.dump(2) + "\n",
                                                    summary_.directed_edges)
        .get();
    return 0;
  });
  report(
      fmt::format("graph: {} edges, {:.1f} at a point, {}", summary_.directed_edges / 2,
                  static_cast<double>(summary_.directed_edges) / static_cast<double>(shape_.points),
                  format_seconds(in_seconds(clock_.now() - began))));
}

GraphSummary GraphRun::run(GraphProgress progress) {
  if (!(plan_.recall > 0 && plan_.recall <= 1))
    throw_error(ErrorCode::kInvalidArgument, "graph.recall is {}; expected above 0 and at most 1",
                plan_.recall);
  discard_state_ = progress.digest.empty();
  const auto have_begun = [&] {
    run_with_recovery([&](const auto&) {
      if (!begun_) begin();  // a recovery has begun already
      return 0;
    });
  };
  have_begun();
  summary_.points = shape_.points;
  summary_.dimensions = shape_.dimensions;
  summary_.search = shape_.search;
  summary_.digest = inspect();
  summary_.was_reused = find_existing_store();
  const bool of_other_input = !progress.digest.empty() && progress.digest != summary_.digest;
  const bool is_lost = !of_other_input && !summary_.was_reused && !has_saved_state(progress);
  if (is_lost)
    report("graph: the state of the earlier run no longer exists in scratch; the search restarts");
  if (of_other_input || is_lost) {
    progress = {};
    begun_ = false;
    discard_state_ = true;
    have_begun();
  }
  progress_ = progress;
  progress_.digest = summary_.digest;
  if (!summary_.was_reused) {
    run_with_recovery([](const auto& workers) {
      workers.template call<&GraphWorker::invalidate_store>().get();
      return 0;
    });
    if (shape_.dimensions > 0) {
      find_copies();
      if (shape_.points < plan_.exact_below) compare_all();
      else probe();
    }
    finish();
  }
  summary_.workers = run_with_recovery([](const auto& workers) {
    return workers.template call<&GraphWorker::resource_usage>().get();
  });
  return summary_;
}

}  // namespace weft::apps
