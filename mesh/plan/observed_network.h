#pragma once

#include <span>
#include <string>

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// Returns the plan's network, updated by the rates that its devices observed. `egress_rates`: by
/// DeviceId, bytes per second that the network took while the device always had data to send; 0 if
/// not observed (see StepReport). A host's rate is the sum over its devices. It does not change if
/// a sending device was not observed, or if it differs by at most 20 % from the plan's rate.
transfer::Network observed_network(const TrainingPlan& plan, std::span<const double> egress_rates);

/// Returns text such as "trainer-b sends 12.5 MB/s where the plan counted on 125.0 MB/s", or "" if
/// the networks are equal.
std::string describe_change(const TrainingPlan& plan, const transfer::Network& network);

}  // namespace weft::mesh
