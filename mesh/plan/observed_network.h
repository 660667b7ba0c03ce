#pragma once

#include <span>
#include <string>

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// The plan's network with what its devices have seen of it: `egress_rates` by DeviceId, bytes per
/// second that the network took while the device always had something to send, 0 where that has not
/// been seen (see StepReport). A host's rate is the sum over its devices; a host of which a device
/// that sends has not been seen stays as it is, as the sum would be too small. What differs by at
/// most 20 % from what the plan counts on stays as it is.
transfer::Network observed_network(const TrainingPlan& plan, std::span<const double> egress_rates);

/// "trainer-b sends 12.5 MB/s where the plan counted on 125.0 MB/s"; empty where the networks are
/// equal.
std::string describe_change(const TrainingPlan& plan, const transfer::Network& network);

}  // namespace weft::mesh
