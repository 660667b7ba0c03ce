#include "apps/select/select_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/run_files/progress_display.h"
#include "apps/select/progress_file.h"
#include "apps/select/progress_plot.h"
#include "apps/select/selection_map.h"
#include "apps/selection/npy_file.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

/// Converts a score, a sum of weighted 16-bit fractions, to the scale of weights that add up to 1,
/// per chosen point.
double score_per_point(std::int64_t score, const FinishedSelection& finished) {
  const SelectionSettings& settings = finished.plan.settings;
  return static_cast<double>(score) / 65535.0 /
         static_cast<double>(settings.utility + settings.similarity) /
         static_cast<double>(finished.summary.chosen);
}

std::uint64_t peak_of(const SelectionSummary& summary) {
  std::uint64_t peak = 0;
  for (const ResourceUsage& usage : summary.workers) peak = std::max(peak, usage.peak_bytes);
  return peak;
}

}  // namespace

nlohmann::ordered_json summary_json(const SelectConfig& config, const FinishedSelection& finished,
                                    const GroundSetBuilder& ground_set) {
  const SelectionSummary& summary = finished.summary;
  const KnownPoints& known = finished.known;
  const SelectionSettings& settings = finished.plan.settings;
  nlohmann::ordered_json json = {{"name", config.name},
                                 {"app", "select"},
                                 {"outcome", "done"},
                                 {"points", summary.ground_set.points},
                                 {"directed_edges", summary.ground_set.directed_edges},
                                 {"graph_bytes", 8 * known.points + 6 * known.edges},
                                 {"chosen", summary.chosen},
                                 {"weights", {settings.utility, settings.similarity}},
                                 {"score", summary.score},
                                 {"random_score", summary.random_score},
                                 {"score_per_point", score_per_point(summary.score, finished)},
                                 {"accepted_by_bounding", summary.accepted},
                                 {"discarded_by_bounding", summary.discarded},
                                 {"bounding_steps", summary.bounding_steps},
                                 {"rounds", rounds_json(summary.rounds)},
                                 {"point_visits", summary.point_visits},
                                 {"seconds", finished.seconds},
                                 {"seconds_with_start", finished.seconds_with_start},
                                 {"recoveries", finished.recoveries},
                                 {"digest", summary.digest},
                                 {"cap_bytes", config.cluster.memory},
                                 {"forecast_bytes", finished.forecast_bytes}};
  json.update(ground_set.summary());
  for (const ResourceUsage& usage : summary.workers)
    json["workers"].push_back({{"peak_bytes", usage.peak_bytes},
                               {"read_bytes", usage.read_bytes},
                               {"written_bytes", usage.written_bytes},
                               {"sent_bytes", usage.sent_bytes},
                               {"shard_reads", usage.shard_reads},
                               {"bounding_shard_reads", usage.bounding_reads},
                               {"bounding_records", usage.records}});
  return json;
}

void draw_pictures(SelectionRun& selection, const FinishedSelection& finished,
                   const SelectConfig& config, const PreparedInput* mapped,
                   const std::filesystem::path& folder) {
  const SelectionSummary& summary = finished.summary;
  const std::string title =
      fmt::format("{}: {} of {} points chosen", config.name,
                  with_thousands(static_cast<double>(summary.chosen)),
                  with_thousands(static_cast<double>(summary.ground_set.points)));
  const auto stages = stages_of(summary.ground_set.points, summary.chosen, finished.progress);
  double seconds = 0;
  for (const SelectionStage& stage : stages) seconds += stage.seconds;
  // A single stage decides all points; its picture would be one bar.
  if (stages.size() > 1)
    draw_progress(stages, fmt::format("{}, in {}", title, format_seconds(seconds)))
        .write(folder / "progress.svg");
  if (mapped == nullptr) return;
  draw_map(map_selection(selection, NpyFile(mapped->vectors()), config.plan.settings.seed), title)
      .write(folder / "map.svg");
}

std::vector<std::string> closing_lines(const FinishedSelection& finished,
                                       const GroundSetBuilder& ground_set,
                                       const std::optional<std::filesystem::path>& sheet,
                                       const std::filesystem::path& folder) {
  const SelectionSummary& summary = finished.summary;
  std::vector<std::string> lines = {
      fmt::format("chose {} of {} in {}; score {:.4g} a point (a random choice: {:.4g}); {} points "
                  "a second; at most {} a process",
                  with_thousands(static_cast<double>(summary.chosen)),
                  with_thousands(static_cast<double>(summary.ground_set.points)),
                  format_seconds(finished.seconds), score_per_point(summary.score, finished),
                  score_per_point(summary.random_score, finished),
                  with_thousands(static_cast<double>(summary.point_visits) / finished.seconds),
                  format_bytes(peak_of(summary))),
      "digest " + summary.digest};
  if (std::filesystem::exists(folder / "progress.svg"))
    lines.push_back((folder / "progress.svg").string() + " shows how points were decided");
  lines.push_back(ground_set.mapped() != nullptr
                      ? (folder / "map.svg").string() + " shows where the chosen ones lie"
                      : "no map.svg was drawn, as the graph was not built from vectors");
  if (sheet)
    lines.push_back(sheet->string() + " shows some of them beside neighbours that were left out");
  if (ground_set.prepared() != nullptr && !ground_set.prepared()->data_section.empty())
    lines.push_back(
        fmt::format("to train on them, with this data: --set data.subset={}", folder.string()));
  return lines;
}

}  // namespace weft::apps
