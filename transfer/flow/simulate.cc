#include "transfer/flow/simulate.h"

#include "core/base/error.h"
#include "transfer/flow/internal/fluid.h"

namespace weft::transfer {

Simulation simulate(std::span<const Flow> flows, const Topology& topology, const Network& network,
                    const SimulateOptions& options) {
  network.validate();
  if (network.num_hosts() < topology.num_hosts())
    throw_error(ErrorCode::kInvalidArgument, "the network has {} hosts, the topology {}", network.num_hosts(),
                topology.num_hosts());
  return internal::Fluid(flows, topology, network, options).run();
}

}  // namespace weft::transfer
