#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/run_files/svg.h"
#include "apps/selection/npy_file.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// Chosen points among those that were left out, in a plane: some thousands of either. A value.
struct SelectionMap {
  using Dot = std::array<double, 2>;

  std::vector<Dot> chosen, left_out;  ///< Those that are shown.
  std::uint64_t num_chosen = 0, num_points = 0;
  std::array<double, 2> shares = {};  ///< See PlaneProjection.
};

/// Of vectors that are brought to length 1, as the graph compares them, projected onto the
/// principal components of those that are shown. `vectors`: a row of each point; only those shown
/// are held, and fewer are where they are wide: less than 100 MiB. Throws what reading the results
/// and the file throws.
SelectionMap map_selection(SelectionRun& selection, const NpyFile& vectors, std::uint64_t seed);

/// map.svg: left-out points grey, chosen ones blue above them.
Svg draw_map(const SelectionMap& map, const std::string& title);

}  // namespace weft::apps
