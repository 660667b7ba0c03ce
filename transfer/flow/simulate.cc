#include "transfer/flow/simulate.h"

#include "core/base/error.h"
#include "transfer/flow/internal/fluid_simulation.h"

namespace weft::transfer {
namespace {

void check_hosts(const Topology& topology, const Network& network) {
  network.validate();
  if (network.num_hosts() < topology.num_hosts())
    throw_error(ErrorCode::kInvalidArgument, "the network has {} hosts, the topology {}",
                network.num_hosts(), topology.num_hosts());
}

}  // namespace

FlowSimulation simulate(std::span<const Flow> flows, const Topology& topology,
                        const Network& network, const SimulateOptions& options) {
  check_hosts(topology, network);
  return internal::FluidSimulation(flows, topology, network, options).run();
}

PreemptiveSchedule preemptive_schedule(std::span<const Flow> flows,
                                       std::span<const std::vector<DeviceId>> roots,
                                       const Topology& topology, const Network& network,
                                       const PreemptOptions& preempt,
                                       const SimulateOptions& options) {
  check_hosts(topology, network);
  return internal::FluidSimulation(flows, topology, network, options)
      .schedule(flows, roots, topology, preempt);
}

}  // namespace weft::transfer
