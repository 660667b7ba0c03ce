#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench_reshard/bench_result.h"
#include "apps/run_files/svg.h"

namespace weft::apps {

/// A group of bars per case, one bar per strategy: median time as a share of the limit, with
/// minimum and maximum as a whisker. Cases below 2 MiB are left out; nothing if no other is there.
std::optional<Svg> draw_ratios(const std::vector<BenchResult>& all, const std::string& title);

}  // namespace weft::apps
