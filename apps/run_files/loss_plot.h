#pragma once

#include <string>
#include <vector>

#include "apps/run_files/metrics.h"
#include "apps/run_files/run_summary.h"
#include "apps/svg/svg.h"

namespace weft::apps {

/// Draws the losses over the steps: each training step faintly, their moving average, validation
/// losses, and a line at the baseline's loss, if it has one.
Svg draw_losses(const std::vector<StepMetrics>& steps, const Baseline& baseline,
                const std::string& title);

}  // namespace weft::apps
