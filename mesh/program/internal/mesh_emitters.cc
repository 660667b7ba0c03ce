#include "mesh/program/internal/mesh_emitters.h"

#include <variant>

namespace weft::mesh {

MeshEmitters::MeshEmitters(const DeviceMesh& mesh, const std::vector<int>& actors,
                           const std::string& program, const transfer::Topology& topology,
                           TransferNumbers& numbers,
                           std::map<transfer::DeviceId, Emitter>& emitters)
    : mesh_(mesh), topology_(topology), numbers_(numbers), actor_of_rank_(actors) {
  for (int rank = 0; rank < size(); ++rank) {
    const transfer::DeviceId device = mesh.devices()[rank];
    emitters_.push_back(
        &emitters.try_emplace(device, program, device, device_name(mesh, rank)).first->second);
    ranks_of_actor_[actors[rank]].push_back(rank);
    all_ranks_.push_back(rank);
  }
}

std::vector<std::uint32_t> MeshEmitters::add_transfers(const std::string& name,
                                                       TransferPurpose purpose,
                                                       const std::vector<GroupPlan>& plans) const {
  std::vector<std::uint32_t> transfers(emitters_.size());
  for (const GroupPlan& group : plans) {
    const std::uint32_t op = numbers_.add_in_mesh(group.plan);
    for (const int rank : group.ranks) {
      const transfer::DevicePart part = std::visit(
          [&](const auto& plan) { return plan.device_part(mesh_.devices()[rank]); }, group.plan);
      transfers[rank] = emitters_[rank]->add_transfer({name, purpose, op, part});
    }
  }
  return transfers;
}

std::vector<std::uint32_t> MeshEmitters::add_move(const std::string& name, const TensorType& type,
                                                  const Move& move) const {
  return add_transfers(
      name,
      move.kind == MoveKind::kAllReduce ? TransferPurpose::kAllReduce : TransferPurpose::kInMesh,
      plan_move(type, move, mesh_, topology_));
}

void MeshEmitters::slice(const std::vector<int>& ranks, const TensorType& type, const Move& move,
                         const std::vector<std::uint32_t>& sources,
                         const std::vector<std::uint32_t>& destinations) const {
  for (const int rank : ranks)
    slice(rank, region_of(type.shape, move.from, mesh_, rank),
          region_of(type.shape, move.to, mesh_, rank), sources[rank], destinations[rank]);
}

void MeshEmitters::slice(int rank, const Region& held, const Region& kept, std::uint32_t source,
                         std::uint32_t destination) const {
  std::size_t dimension = 0;
  for (std::size_t d = 0; d < held.rank(); ++d)
    if (held[d] != kept[d]) dimension = d;
  emitters_[rank]->run({OpKind::kSlice,
                        {{"dim", static_cast<std::int64_t>(dimension)},
                         {"begin", kept[dimension].begin - held[dimension].begin},
                         {"size", kept[dimension].size()}}},
                       {source}, {destination}, false);
}

void MeshEmitters::wait_for_all() const {
  for (Emitter* emitter : emitters_) emitter->wait_for_all();
}

}  // namespace weft::mesh
