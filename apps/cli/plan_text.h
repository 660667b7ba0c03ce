#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/cli/reshard_request.h"
#include "transfer/reshard/plan.h"

namespace weft::apps {

/// The plan on a screen: who holds and wants which slice, the tree of every flow, what each host's
/// links carry, the limit and the predicted time. Long lists are cut; to_json has everything.
std::string describe_plan(const ReshardProblem& problem, const transfer::ReshardPlan& plan,
                          double plan_seconds);

nlohmann::ordered_json to_json(const ReshardProblem& problem, const transfer::ReshardPlan& plan,
                               double plan_seconds);

}  // namespace weft::apps
