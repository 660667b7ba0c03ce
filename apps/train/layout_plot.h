#pragma once

#include <string>
#include <vector>

#include "apps/svg/svg.h"
#include "apps/train/compare_layouts.h"

namespace weft::apps {

/// Draws two bar charts with one bar per usable layout: bytes received, coloured by axis, with a
/// line at the closed form of the linear layers; and memory by kind.
Svg draw_layouts(const std::vector<LayoutCosts>& figures, const std::string& title);

}  // namespace weft::apps
