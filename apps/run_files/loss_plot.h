#pragma once

#include <string>
#include <vector>

#include "apps/run_files/metrics.h"
#include "apps/run_files/run_summary.h"
#include "apps/run_files/svg.h"

namespace weft::apps {

/// Draws the losses over the steps: each training step faintly, their moving average, the
/// validation losses, and, if the baseline has a loss, the line that a model has to get under to
/// have learned anything.
Svg draw_losses(const std::vector<StepMetrics>& steps, const Baseline& baseline,
                const std::string& title);

}  // namespace weft::apps
