#pragma once

#include <cstdint>
#include <vector>

#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::apps {

/// What a plan asks of one host's links.
struct LinkLoad {
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  double seconds_out = 0;  ///< At the link's full speed.
  double seconds_in = 0;
};

/// Indexed by HostId.
std::vector<LinkLoad> link_loads(const transfer::ReshardPlan& plan,
                                 const transfer::Network& network);

}  // namespace weft::apps
