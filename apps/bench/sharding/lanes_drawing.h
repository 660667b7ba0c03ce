#pragma once

#include <string>
#include <vector>

#include "apps/svg/svg.h"
#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// Plan to be drawn, with a name such as "halves".
struct NamedPlan {
  std::string name;
  mesh::TrainingPlan plan;
};

/// Draws the lists of the first mesh: its compute lane above its network lane, for a forward and a
/// backward of one microbatch amid a step. Plans are under each other, on one axis of time. Plans
/// without lists are left out.
Svg draw_lanes(const std::vector<NamedPlan>& plans);

}  // namespace weft::apps
