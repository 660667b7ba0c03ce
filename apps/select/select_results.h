#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/select_input/prepare_input.h"
#include "apps/selection/point_store.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// Leaves what was chosen in a run's folder, point by point, whatever their number:
///
///   chosen.tsv    each chosen point: what it is called, where it came from, utility, gain, by what
///                 it was decided
///   points.u32    the ids alone, to be mapped; subset.json, what they belong to
///   chosen.parquet  of Parquet files: a folder of such, a row for each chosen one with its id
///   chosen.png    of pictures, chosen.txt of texts: some chosen ones beside neighbours left out
///
/// Of so many `points`. `prepared`: of an input; nothing where points were given or generated.
/// Gives the sheet's file, if there is one. Throws Error(kResourceExhausted) where the disk is
/// full.
std::optional<std::filesystem::path> write_results(SelectionRun& selection, std::uint64_t points,
                                                   const SelectInput* input,
                                                   const PreparedInput* prepared,
                                                   std::uint64_t seed,
                                                   const std::filesystem::path& folder);

}  // namespace weft::apps
