#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transfer/reshard/plan.h"

namespace weft::apps {

/// Bytes from one host to another, of one flow or of all.
struct Arrow {
  transfer::HostId from, to;
  std::size_t colour = 0;
  std::uint64_t bytes = 0;
};

/// Bytes of a flow between two devices of a host.
struct IntraHostTransfer {
  transfer::DeviceId from, to;
  std::size_t colour = 0;
  std::uint64_t bytes = 0;
};

/// Transfers of a plan, as its drawing shows them. A value.
struct Arrows {
  std::vector<Arrow> between_hosts;
  std::vector<IntraHostTransfer> inside_hosts;
  bool per_flow = true;  ///< True if colours tell flows apart; else they tell sending hosts apart.
};

/// Returns the transfers of a plan. Colours tell flows apart if there are at most 12.
Arrows arrows_of(const transfer::ReshardPlan& plan);

}  // namespace weft::apps
