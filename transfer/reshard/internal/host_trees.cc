#include "transfer/reshard/internal/host_trees.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

#include "core/base/check.h"

namespace weft::transfer::internal {

std::vector<HostTree> build_host_trees(const HostDemand& datum, const Piece& piece,
                                       const Network& network, std::span<const double> spare,
                                       std::size_t turn) {
  const std::size_t holders = datum.holders.size(), receivers = datum.receivers.size();
  // Slot for one more child. The shallowest slot is filled first, then the oldest.
  struct ChildSlot {
    int depth;
    std::size_t order;
    HostId host;
    std::size_t tree;
    bool operator>(const ChildSlot& other) const {
      return std::tie(depth, order) > std::tie(other.depth, other.order);
    }
  };
  std::priority_queue<ChildSlot, std::vector<ChildSlot>, std::greater<>> places;
  std::size_t order = 0;
  std::vector<HostTree> trees;
  for (std::size_t i = 0; i < holders; ++i) {
    if (piece.degrees[i] == 0) continue;
    for (std::uint32_t child = 0; child < piece.degrees[i]; ++child)
      places.push({0, order++, datum.holders[i], trees.size()});
    trees.push_back({datum.holders[i], {}});
  }
  struct HostCandidate {
    HostId host;
    std::uint32_t degree;
    /// Rate to each child, in steps of 10 % of the fastest link, so that small differences do not
    /// matter.
    int rate;
    /// Spare egress in thirds, for the same reason: pieces of equal size should take turns.
    int spare;
    std::size_t turn;
  };
  double fastest = 0;
  for (const HostId host : datum.receivers)
    fastest = std::max(fastest, network.host(host).egress());
  std::vector<HostCandidate> candidates;
  for (std::size_t i = 0; i < receivers; ++i) {
    const HostId host = datum.receivers[i];
    const std::uint32_t degree = piece.degrees[holders + i];
    const Network::HostLinks& links = network.host(host);
    const double rate = degree == 0 ? 0 : std::min(links.ingress(), links.egress() / degree);
    candidates.push_back({host, degree, static_cast<int>(std::lround(10 * rate / fastest)),
                          static_cast<int>(std::lround(3 * spare[host.value()])),
                          (i + turn) % receivers});
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const HostCandidate& a, const HostCandidate& b) {
              if ((a.degree > 0) != (b.degree > 0)) return a.degree > 0;
              return std::tuple(-a.rate, -a.spare, a.turn) < std::tuple(-b.rate, -b.spare, b.turn);
            });
  for (const HostCandidate& candidate : candidates) {
    WEFT_CHECK(!places.empty(), "datum {}: degrees are those of no forest", piece.datum);
    const ChildSlot place = places.top();
    places.pop();
    trees[place.tree].edges.push_back({place.host, candidate.host});
    for (std::uint32_t child = 0; child < candidate.degree; ++child)
      places.push({place.depth + 1, order++, candidate.host, place.tree});
  }
  return trees;
}

}  // namespace weft::transfer::internal
