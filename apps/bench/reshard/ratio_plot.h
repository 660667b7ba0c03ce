#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench/reshard/bench_result.h"
#include "apps/svg/svg.h"

namespace weft::apps {

/// Draws a group of bars per case, one bar per strategy: the limit's share of the median time, with
/// minimum and maximum as a whisker. Omits cases below 2 MiB; returns nullopt if no other was run.
std::optional<Svg> draw_ratios(const std::vector<BenchResult>& all, const std::string& title);

}  // namespace weft::apps
