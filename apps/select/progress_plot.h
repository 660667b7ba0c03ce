#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/selection/selection_run.h"
#include "apps/svg/svg.h"

namespace weft::apps {

/// Step of bounding or round of partitions, with the number of points in each state after it. A
/// value.
struct SelectionStage {
  std::uint32_t partitions = 0;  ///< Partitions of a round. 0 for a step of bounding.
  std::uint64_t chosen = 0, in_play = 0, left_out = 0;
  double seconds = 0;
  friend bool operator==(const SelectionStage&, const SelectionStage&) = default;
};

/// Returns all stages of a selection of `count` out of `points`, in order.
std::vector<SelectionStage> stages_of(std::uint64_t points, std::uint64_t count,
                                      const SelectionProgress& progress);

/// Draws progress.svg. Each stage has a bar with the shares of chosen, undecided and rejected
/// points, and its duration below. Bounding steps are on the left, rounds on the right.
Svg draw_progress(const std::vector<SelectionStage>& stages, const std::string& title);

}  // namespace weft::apps
