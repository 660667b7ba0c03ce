#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/select_input/prepare_input.h"
#include "apps/selection/point_store.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// Writes the chosen points to a run's folder. Memory does not grow with their number.
///
///   chosen.tsv      a line per chosen point: origin, utility, gain, deciding round
///   points.u32      the ids alone, to be mapped; subset.json describes their data set
///   chosen.parquet  for Parquet files: a folder of files with a row per chosen row
///   chosen.png      for pictures (chosen.txt for texts): chosen rows beside rejected neighbours
///
/// `points` is the size of the ground set. `prepared` is null if the points were given or
/// generated. Returns the file of the contact sheet, if any. Throws Error(kResourceExhausted) if
/// the disk is full.
std::optional<std::filesystem::path> write_results(SelectionRun& selection, std::uint64_t points,
                                                   const SelectInput* input,
                                                   const PreparedInput* prepared,
                                                   std::uint64_t seed,
                                                   const std::filesystem::path& folder);

}  // namespace weft::apps
