#pragma once

#include <string>
#include <vector>

#include "apps/run_files/svg.h"
#include "apps/train/compare_layouts.h"

namespace weft::apps {

/// Two groups of bars, one bar per layout that can be: bytes received, in colours by axis, with a
/// line where the closed form of linears is; and memory by kind.
Svg draw_layouts(const std::vector<LayoutFigures>& figures, const std::string& title);

}  // namespace weft::apps
