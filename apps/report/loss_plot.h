#pragma once

#include <string>
#include <vector>

#include "apps/report/metrics.h"
#include "apps/report/svg.h"

namespace weft::apps {

/// Draws the losses over the steps: each training step faintly, their moving average, the validation losses,
/// and, if `unigram_loss` is over 0, the line that a model has to get under to have learned anything of
/// context.
Svg draw_losses(const std::vector<StepMetrics>& steps, double unigram_loss, const std::string& title);

}  // namespace weft::apps
