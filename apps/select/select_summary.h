#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/select/ground_set_builder.h"
#include "apps/select/select_config.h"
#include "apps/select/select_plan.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// Selection that has ended, with what was known before it. A value.
struct FinishedSelection {
  KnownPoints known;
  SelectionPlan plan;
  std::uint64_t forecast_bytes = 0;  ///< Forecast of a process's peak memory.
  SelectionSummary summary;
  SelectionProgress progress;     ///< Steps and rounds with their durations.
  double seconds = 0;             ///< Duration of the selection.
  double seconds_with_start = 0;  ///< Duration since the driver's start.
  std::uint32_t recoveries = 0;
};

/// Returns the content of summary.json.
nlohmann::ordered_json summary_json(const SelectConfig& config, const FinishedSelection& finished,
                                    const GroundSetBuilder& ground_set);

/// Writes progress.svg, and map.svg if the graph was built from vectors (`mapped` is not null).
void draw_pictures(SelectionRun& selection, const FinishedSelection& finished,
                   const SelectConfig& config, const PreparedInput* mapped,
                   const std::filesystem::path& folder);

/// Returns the last lines for users. `sheet` is the contact sheet's file.
std::vector<std::string> closing_lines(const FinishedSelection& finished,
                                       const GroundSetBuilder& ground_set,
                                       const std::optional<std::filesystem::path>& sheet,
                                       const std::filesystem::path& folder);

}  // namespace weft::apps
