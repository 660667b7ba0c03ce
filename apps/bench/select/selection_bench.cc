#include "apps/bench/select/selection_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/selection/kth_largest.h"
#include "apps/selection/point_store.h"
#include "apps/selection/rounds.h"
#include "core/base/clock.h"
#include "core/base/memory.h"

namespace weft::apps {
namespace {

/// Returns the rows of `count` random points, the same ones that SelectionWorker draws.
std::vector<std::uint32_t> draw_random_rows(const PointGraph& graph, std::uint64_t count,
                                            std::uint64_t seed) {
  std::vector<std::uint32_t> rows(graph.size());
  for (std::uint32_t row = 0; row < rows.size(); ++row) rows[row] = row;
  std::ranges::nth_element(rows, rows.begin() + static_cast<std::ptrdiff_t>(count), std::greater(),
                           [&](std::uint32_t row) { return sample_key(graph.ids[row], seed); });
  rows.resize(count);
  std::ranges::sort(rows);
  return rows;
}

}  // namespace

CentralResult choose_centrally(const SelectionBenchCase& bench) {
  const SteadyClock clock;
  CentralResult result;
  TimePoint began = clock.now();
  const PointGraph graph = PointStore(bench.points).load(bench.objective);
  result.load_seconds = in_seconds(clock.now() - began);
  began = clock.now();
  std::vector<std::uint32_t> rows;
  for (const ChosenPoint& point : choose_greedily(graph, bench.objective, bench.count, bench.seed))
    rows.push_back(point.row);
  result.greedy_seconds = in_seconds(clock.now() - began);
  result.peak_bytes = peak_resident_bytes();
  std::ranges::sort(rows);
  result.score = score_of(graph, bench.objective, rows);
  result.random_score =
      score_of(graph, bench.objective, draw_random_rows(graph, bench.count, bench.seed));
  return result;
}

std::vector<GridCell> run_grid(const SelectionBenchCase& bench, std::uint32_t delta) {
  const PointGraph graph = PointStore(bench.points).load(bench.objective);
  std::vector<GridCell> cells;
  for (const bool adaptive : {true, false}) {
    for (std::uint32_t partitions = 2; partitions <= 32; partitions *= 2) {
      for (std::uint32_t rounds = 1; rounds <= 32; rounds *= 2) {
        RoundOptions options;
        options.count = bench.count;
        options.partitions = partitions;
        options.rounds = rounds;
        options.adaptive = adaptive;
        options.delta = delta;
        options.seed = bench.seed;
        std::vector<std::uint32_t> rows;
        for (const ChosenPoint& point : choose_in_rounds(graph, bench.objective, options).chosen)
          rows.push_back(point.row);
        cells.push_back({adaptive, partitions, rounds, score_of(graph, bench.objective, rows)});
      }
    }
  }
  return cells;
}

double gap_closed(std::int64_t score, const CentralResult& central) {
  if (central.score == central.random_score) return 1;
  return static_cast<double>(score - central.random_score) /
         static_cast<double>(central.score - central.random_score);
}

double normalised(const GridCell& cell, const std::vector<GridCell>& cells,
                  const CentralResult& central) {
  const std::int64_t lowest = std::ranges::min_element(cells, {}, &GridCell::score)->score;
  if (central.score == lowest) return 100;
  return 100 * static_cast<double>(cell.score - lowest) /
         static_cast<double>(central.score - lowest);
}

std::string grid_text(const std::vector<GridCell>& cells, const CentralResult& central) {
  std::string text;
  for (const bool adaptive : {true, false}) {
    text += fmt::format("{}\n  m \\ r {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n",
                        adaptive ? "adaptive: normalised, and share of the gap to random"
                                 : "fixed number of partitions",
                        1, 2, 4, 8, 16, 32);
    std::uint32_t row = 0;
    for (const GridCell& cell : cells) {
      if (cell.adaptive != adaptive) continue;
      if (cell.partitions != row) {
        text += fmt::format("{}  {:>5}", row == 0 ? "" : "\n", cell.partitions);
        row = cell.partitions;
      }
      text += fmt::format(" {:>4.0f} {:>4.0f} %", normalised(cell, cells, central),
                          100 * gap_closed(cell.score, central));
    }
    text += "\n";
  }
  return text;
}

std::string grid_json(const std::vector<GridCell>& cells, const CentralResult& central) {
  nlohmann::ordered_json json = {{"central_score", central.score},
                                 {"random_score", central.random_score},
                                 {"cells", nlohmann::ordered_json::array()}};
  for (const GridCell& cell : cells)
    json["cells"].push_back({{"adaptive", cell.adaptive},
                             {"partitions", cell.partitions},
                             {"rounds", cell.rounds},
                             {"score", cell.score},
                             {"normalised", normalised(cell, cells, central)},
                             {"gap_share", gap_closed(cell.score, central)}});
  return json.dump(2) + "\n";
}

}  // namespace weft::apps
