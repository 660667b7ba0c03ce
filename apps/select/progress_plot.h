#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/run_files/svg.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// A step of bounding or a round of partitions, and where points were after it. A value.
struct SelectionStage {
  std::uint32_t partitions = 0;  ///< Of a round; 0: a step of bounding.
  std::uint64_t chosen = 0, in_play = 0, left_out = 0;
  double seconds = 0;
  friend bool operator==(const SelectionStage&, const SelectionStage&) = default;
};

/// All of a selection of `count` of `points`, in their order.
std::vector<SelectionStage> stages_of(std::uint64_t points, std::uint64_t count,
                                      const SelectionProgress& progress);

/// progress.svg: for each stage a bar that shows which share of the points is chosen, in play and
/// left out; beneath, how long it took. Steps of bounding on the left, rounds on the right.
Svg draw_progress(const std::vector<SelectionStage>& stages, const std::string& title);

}  // namespace weft::apps
