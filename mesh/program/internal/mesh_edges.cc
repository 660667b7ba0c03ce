#include "mesh/program/internal/mesh_edges.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"

namespace weft::mesh {

MeshEdges::MeshEdges(MeshView mesh, const MeshEmitters& emitters, BuffersOfMeshes& buffers,
                     const std::vector<PlannedEdge>& edges, const std::vector<Lane>& lanes,
                     const CompileOptions& options)
    : mesh_(mesh),
      emitters_(emitters),
      buffers_(buffers),
      edges_(edges),
      lanes_(lanes),
      options_(options),
      unfinished_(emitters.size()) {
  for (std::size_t e = 0; e < edges.size(); ++e)
    if (edges[e].edge.from_mesh == mesh.id() || edges[e].edge.to_mesh == mesh.id())
      sides_.push_back(make_side(e));
}

MeshEdges::EdgeSide MeshEdges::make_side(std::size_t index) const {
  const MeshEdge& edge = edges_[index].edge;
  const Partition& partition = mesh_.partition();
  const DeviceMesh& senders = partition.meshes[edge.from_mesh];
  const std::string name = fmt::format("{} {}->{}", partition.graph.value(edge.value).name,
                                       senders.name(), partition.meshes[edge.to_mesh].name());
  EdgeSide side;
  side.edge = index;
  side.sends = edge.from_mesh == mesh_.id();
  side.posted.assign(emitters_.size(), 0);
  for (const int rank : emitters_.all_ranks()) {
    const transfer::DeviceId device = mesh_.mesh().devices()[rank];
    const transfer::DevicePart part = edges_[index].plan.device_part(device);
    const bool here = !part.empty() && (side.sends || !senders.rank_of(device));
    side.transfer.push_back(here ? std::optional(emitters_[rank].add_transfer(
                                       {name, TransferPurpose::kReshard, edges_[index].op, part}))
                                 : std::nullopt);
  }
  return side;
}

void MeshEdges::post_first_receives(int actor) {
  for (EdgeSide& side : sides_) {
    if (side.sends) continue;
    for (const int rank : emitters_.ranks_of(actor)) post_receives(side, rank, options_.credits);
  }
}

void MeshEdges::finish_action(ActionPlace place) {
  const std::vector<int>& ranks = emitters_.ranks_of(place.actor);
  // The buffers that this action used free credits for the next receives.
  for (EdgeSide& side : sides_) {
    if (side.sends) continue;
    const auto& uses = lanes_[side.edge].uses.at(place.actor);
    const auto use = std::ranges::find(uses, place.index, &Lane::FirstUse::action);
    if (use == uses.end()) continue;
    for (const int rank : ranks) post_receives(side, rank, use->compound + 1 + options_.credits);
  }
  // Release the sources of sends that have arrived. Each program waits in the order of its sends.
  for (const int rank : ranks) {
    auto& unfinished = unfinished_[rank];
    std::vector<std::uint32_t> arrived;
    const auto later = unfinished.upper_bound(place.index);
    for (auto at = unfinished.begin(); at != later; ++at) arrived.push_back(at->second);
    unfinished.erase(unfinished.begin(), later);
    std::ranges::sort(arrived);
    for (const std::uint32_t handle : arrived) emitters_[rank].wait(handle);
  }
}

void MeshEdges::post_receives(EdgeSide& side, int rank, std::size_t compounds) {
  const auto& uses = lanes_[side.edge].uses.at(emitters_.actor_of(rank));
  for (std::size_t& posted = side.posted[rank];
       posted < uses.size() && uses[posted].compound < compounds; ++posted) {
    if (!side.transfer[rank]) continue;
    const int microbatch = uses[posted].microbatch;
    emitters_[rank].start(*side.transfer[rank], microbatch, std::nullopt,
                          instance(edges_[side.edge].edge.destination, microbatch, rank));
  }
}

void MeshEdges::send(LocalId id, int microbatch, const std::vector<int>& ranks) {
  for (const EdgeSide& side : sides_) {
    if (!side.sends || edges_[side.edge].edge.source != id) continue;
    if (options_.lowering == Lowering::kSafe) {
      note_ready(side, id, microbatch, ranks);
    } else {
      for (const int rank : ranks) start_send(side, id, microbatch, rank);
    }
  }
}

void MeshEdges::note_ready(const EdgeSide& side, LocalId id, int microbatch,
                           const std::vector<int>& ranks) {
  const auto key = std::pair(side.edge, microbatch);
  OutgoingTensor& outgoing =
      incomplete_.try_emplace(key, OutgoingTensor{side.edge, microbatch, {}}).first->second;
  for (const int rank : ranks) outgoing.sources[rank] = instance(id, microbatch, rank);
  if (std::ssize(outgoing.sources) < emitters_.size()) return;
  ready_.push_back(std::move(outgoing));
  incomplete_.erase(key);
}

void MeshEdges::start_send(const EdgeSide& side, LocalId id, int microbatch, int rank) {
  if (!side.transfer[rank]) return;
  const std::uint32_t source = instance(id, microbatch, rank);
  const std::uint32_t handle = emitters_[rank].start(*side.transfer[rank], microbatch, source,
                                                     destination_here(side, microbatch, rank));
  const auto& known_at = lanes_[side.edge].arrival_known_at.at(emitters_.actor_of(rank));
  unfinished_[rank].insert({known_at[microbatch], handle});
}

std::optional<std::uint32_t> MeshEdges::destination_here(const EdgeSide& side, int microbatch,
                                                         int rank) const {
  const MeshEdge& edge = edges_[side.edge].edge;
  const auto other = mesh_.partition().meshes[edge.to_mesh].rank_of(mesh_.mesh().devices()[rank]);
  if (!other) return std::nullopt;
  return buffers_[edge.to_mesh]->instance(edge.destination, microbatch, *other);
}

void MeshEdges::emit_blocking_transfer(const OutgoingTensor& outgoing) {
  const auto side = std::ranges::find(sides_, outgoing.edge, &EdgeSide::edge);
  WEFT_CHECK(side != sides_.end(), "edge {}", outgoing.edge);
  const LocalId destination = edges_[outgoing.edge].edge.destination;
  for (const int rank : emitters_.all_ranks()) {
    if (!side->transfer[rank]) continue;
    std::optional<std::uint32_t> source, target;
    if (side->sends) {
      source = outgoing.sources.at(rank);
      target = destination_here(*side, outgoing.microbatch, rank);
    } else {
      target = instance(destination, outgoing.microbatch, rank);
    }
    Emitter& emitter = emitters_[rank];
    emitter.wait(emitter.start(*side->transfer[rank], outgoing.microbatch, source, target));
  }
}

}  // namespace weft::mesh
