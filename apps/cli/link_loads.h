#pragma once

#include <cstdint>
#include <vector>

#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::apps {

/// Load of one host's links under a plan.
struct LinkLoad {
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  double seconds_out = 0;  ///< Duration at the link's full speed.
  double seconds_in = 0;
};

/// Returns the load of each host, indexed by HostId.
std::vector<LinkLoad> link_loads(const transfer::ReshardPlan& plan,
                                 const transfer::Network& network);

}  // namespace weft::apps
