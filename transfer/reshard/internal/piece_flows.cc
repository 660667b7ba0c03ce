#include "transfer/reshard/internal/piece_flows.h"

#include <algorithm>
#include <cstdint>

#include "transfer/reshard/internal/host_trees.h"
#include "transfer/reshard/internal/plan_builder.h"

namespace weft::transfer::internal {
namespace {

/// Distance, in bytes, within which a cut moves to the end of a bundle.
constexpr std::uint64_t kSnapBytes = 64 * 1024;

/// Returns, per host, the share of the time in which it sends nothing.
std::vector<double> spare_egress(const WeftProblem& problem, const std::vector<Piece>& pieces) {
  const double seconds =
      std::max(problem.limit.seconds, egress_seconds(problem.demand.data, problem.network, pieces));
  std::vector<double> spare(problem.network.num_hosts(), 1.0);
  if (seconds <= 0) return spare;
  for (const Piece& piece : pieces) {
    const HostDemand& datum = problem.demand.data[piece.datum];
    for (std::size_t i = 0; i < piece.degrees.size(); ++i) {
      const HostId host =
          i < datum.holders.size() ? datum.holders[i] : datum.receivers[i - datum.holders.size()];
      spare[host.value()] -= static_cast<double>(piece.bytes) * piece.degrees[i] /
                             (problem.network.host(host).egress() * seconds);
    }
  }
  return spare;
}

/// Returns the offset of a datum's cut in the bundle that begins at `begin`. Cuts close to an end
/// of the bundle move there.
std::uint64_t cut_in(std::uint64_t begin, std::uint64_t bytes, std::uint64_t cut,
                     std::uint64_t datum_end) {
  if (cut <= begin) return 0;
  if (cut >= begin + bytes || cut >= datum_end) return bytes;
  const std::uint64_t inside = (cut - begin) / 64 * 64;
  if (inside < std::min(kSnapBytes, bytes)) return inside * 2 < bytes ? 0 : bytes;
  return bytes - inside < kSnapBytes ? bytes : inside;
}

/// Adds one flow for each bundle that overlaps the piece.
void add(PlanBuilder& draft, const WeftProblem& problem, const Piece& piece, const HostTree& tree) {
  const std::uint64_t piece_end = piece.begin + piece.bytes,
                      datum_end = problem.demand.data[piece.datum].bytes;
  std::uint64_t begin = 0;
  for (const std::uint32_t index : problem.demand.bundles_of[piece.datum]) {
    const SliceGroup& bundle = problem.demand.bundles[index];
    const std::uint64_t from = cut_in(begin, bundle.bytes, piece.begin, datum_end),
                        to = cut_in(begin, bundle.bytes, piece_end, datum_end);
    begin += bundle.bytes;
    if (from >= to) continue;
    const DeviceId root = draft.sender_for(tree.root, bundle);
    draft.add(bundle, {from, to - from}, root, draft.edges_along(bundle, root, tree.edges));
  }
}

}  // namespace

PieceFlows flows_of(const WeftProblem& problem, const std::vector<Piece>& pieces) {
  PlanBuilder draft(problem.demand, problem.topology, problem.network, problem.options);
  const std::vector<double> spare = spare_egress(problem, pieces);
  for (std::size_t turn = 0; turn < pieces.size(); ++turn) {
    const Piece& piece = pieces[turn];
    for (const HostTree& tree :
         build_host_trees(problem.demand.data[piece.datum], piece, problem.network, spare, turn))
      add(draft, problem, piece, tree);
  }
  for (const SliceGroup& bundle : problem.demand.bundles) draft.add_local(bundle);
  return {draft.finish(problem.limit.seconds), draft.roots()};
}

}  // namespace weft::transfer::internal
