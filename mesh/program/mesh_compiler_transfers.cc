#include <fmt/format.h>

#include "core/base/check.h"
#include "mesh/program/mesh_compiler.h"
#include "mesh/program/parameter_blocks.h"

namespace weft::mesh {

std::vector<std::uint32_t> MeshCompiler::add_group_plans(const std::string& name,
                                                         TransferPurpose kind,
                                                         const std::vector<GroupPlan>& plans) {
  std::vector<std::uint32_t> transfers(emitters_.size());
  for (const GroupPlan& group : plans) {
    const std::uint32_t op = ops_.add_in_mesh(group.plan);
    for (const int rank : group.ranks) {
      const transfer::DevicePart part = std::visit(
          [&](const auto& plan) { return plan.device_part(mesh_.devices()[rank]); }, group.plan);
      transfers[rank] = emitter(rank).add_transfer({name, kind, op, part});
    }
  }
  return transfers;
}

std::vector<std::uint32_t> MeshCompiler::add_move(const std::string& name, const TensorType& type,
                                                  const Move& move) {
  return add_group_plans(
      name,
      move.kind == MoveKind::kAllReduce ? TransferPurpose::kAllReduce : TransferPurpose::kInMesh,
      plan_move(type, move, mesh_, topology_));
}

std::vector<std::uint32_t> MeshCompiler::add_step_transfer(const Step& step,
                                                           const std::string& suffix) {
  const auto* move = std::get_if<MoveStep>(&step.what);
  if (move == nullptr || move->move.kind == MoveKind::kSlice) return {};
  return add_move(
      fmt::format("{} {}{}", to_string(move->move.kind), value_name(move->input), suffix),
      partition_.graph.value(local(move->input).value).type, move->move);
}

void MeshCompiler::emit_slice(int rank, const Region& held, const Region& kept,
                              std::uint32_t source, std::uint32_t destination) {
  Emitter& emitter = this->emitter(rank);
  std::size_t dimension = 0;
  for (std::size_t d = 0; d < held.rank(); ++d)
    if (held[d] != kept[d]) dimension = d;
  emitter.run({OpKind::kSlice,
               {{"dim", static_cast<std::int64_t>(dimension)},
                {"begin", kept[dimension].begin - held[dimension].begin},
                {"size", kept[dimension].size()}}},
              {source}, {destination}, false);
}

void MeshCompiler::slice(const TensorType& type, const Move& move,
                         const std::vector<std::uint32_t>& sources,
                         const std::vector<std::uint32_t>& destinations) {
  for (const int rank : *active_)
    emit_slice(rank, region_of(type.shape, move.from, mesh_, rank),
               region_of(type.shape, move.to, mesh_, rank), sources[rank], destinations[rank]);
}

void MeshCompiler::make_step_transfers() {
  recompute_transfers_.resize(part_.steps.size());
  for (std::size_t i = 0; i < part_.steps.size(); ++i) {
    step_transfer_.push_back(add_step_transfer(part_.steps[i], ""));
    // Has an op number of its own, as it runs a second time for the same microbatch.
    const auto again = recomputations_.find(part_.steps[i].stage);
    if (again != recomputations_.end() && again->second.what.steps.contains(i)) {
      recompute_transfers_[i] = add_step_transfer(part_.steps[i], " again");
    }
  }
}

}  // namespace weft::mesh
