#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/cli/reshard_request.h"
#include "transfer/reshard/plan.h"

namespace weft::apps {

/// Describes a plan for the screen: holders and receivers of each slice, the tree of each flow, the
/// load of each host's links, the limit and the predicted time. Long lists are cut; to_json has all
/// entries.
std::string describe_plan(const ReshardProblem& problem, const transfer::ReshardPlan& plan,
                          double plan_seconds);

nlohmann::ordered_json to_json(const ReshardProblem& problem, const transfer::ReshardPlan& plan,
                               double plan_seconds);

}  // namespace weft::apps
