#pragma once

#include <span>
#include <vector>

#include "transfer/reshard/internal/draft.h"
#include "transfer/reshard/internal/pieces.h"

namespace weft::transfer::internal {

/// A tree of hosts, parents first. The root holds the datum.
struct HostTree {
  HostId root;
  std::vector<HostEdge> edges;
};

/// The trees of a piece with its degrees: one per holder that sends. Hosts that pass on come first,
/// those that can send to each child fastest before others and of equal ones those with more egress
/// to spare; hosts that send nothing come last. With degree 1 everywhere that is a chain whose last
/// host is the one that has no egress to spare. `spare`: the part of each host's time in which it
/// sends nothing; `turn` varies the order of equals.
std::vector<HostTree> arrange(const Datum& datum, const Piece& piece, const Network& network,
                              std::span<const double> spare, std::size_t turn);

}  // namespace weft::transfer::internal
