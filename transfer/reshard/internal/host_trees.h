#pragma once

#include <span>
#include <vector>

#include "transfer/reshard/internal/pieces.h"
#include "transfer/reshard/internal/plan_builder.h"

namespace weft::transfer::internal {

/// Tree of hosts, parents first. The root holds the datum.
struct HostTree {
  HostId root;
  std::vector<HostEdge> edges;
};

/// Returns the trees of a piece with its degrees, one per holder that sends. Forwarding hosts come
/// first: the fastest per child first, then those with most spare egress. Hosts that send nothing
/// come last. With degree 1 everywhere, this is a chain whose last host has no spare egress.
/// `spare`: share of each host's time in which it sends nothing; `turn` varies the order of equal
/// hosts.
std::vector<HostTree> build_host_trees(const HostDemand& datum, const Piece& piece,
                                       const Network& network, std::span<const double> spare,
                                       std::size_t turn);

}  // namespace weft::transfer::internal
