#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/selection/npy_file.h"
#include "apps/selection/selection_run.h"
#include "apps/svg/svg.h"

namespace weft::apps {

/// Plane with some thousands of the chosen and of the rejected points. A value.
struct SelectionMap {
  using Dot = std::array<double, 2>;

  std::vector<Dot> chosen, left_out;  ///< Points that are drawn.
  std::uint64_t num_chosen = 0, num_points = 0;
  std::array<double, 2> shares = {};  ///< See PlaneProjection.
};

/// Projects points to the principal components of the drawn ones. `vectors` has a row per point;
/// rows are normalised to length 1, as the graph compares them. Holds drawn rows only, and draws
/// fewer if rows are wide, to stay below 100 MiB. Throws as reading the results and the file does.
SelectionMap map_selection(SelectionRun& selection, const NpyFile& vectors, std::uint64_t seed);

/// Draws map.svg: rejected points in grey, chosen ones in blue above them.
Svg draw_map(const SelectionMap& map, const std::string& title);

}  // namespace weft::apps
