#include "mesh/program/internal/gradient_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/check.h"

namespace weft::mesh {

GradientTerms::GradientTerms(MeshView mesh, const MeshEmitters& emitters, const GradientSums& sums,
                             const GradientReduction& reduction)
    : mesh_(mesh), emitters_(emitters), terms_(mesh.part().parameters.size()) {
  for (std::size_t i = 0; i < sums.sums().size(); ++i) {
    const GradientSum& sum = sums.sums()[i];
    Spec spec = mesh.local(sum.term.gradient).spec;
    spec.partial.clear();
    const bool at_home =
        reduction.is_scattered(i) || spec == mesh.local(sums.parameter_of(sum)).spec;
    terms_[sum.parameter][sum.term.index] = at_home ? reduction.whole(i) : reshard(sum, spec);
  }
}

const std::string& GradientTerms::name_of(std::size_t parameter) const {
  return mesh_.value(mesh_.part().parameters[parameter].value).name;
}

std::string GradientTerms::block_of(std::size_t parameter, int term) const {
  return fmt::format("gradient/{}/{}", name_of(parameter), term);
}

GradientTerms::Buffers GradientTerms::reshard(const GradientSum& sum, const Spec& from) const {
  const LocalId parameter = mesh_.part().parameters[sum.parameter].value;
  const Spec& wanted = mesh_.local(parameter).spec;
  const TensorType type{DType::kF32, mesh_.value(parameter).type.shape};
  Buffers buffers = sum.buffers;
  for (const Move& move : plan_moves(type.shape, from, wanted, mesh_.mesh())) {
    Buffers moved;
    for (const int rank : emitters_.all_ranks()) {
      Emitter& emitter = emitters_[rank];
      const TensorType part{DType::kF32, local_shape(type.shape, move.to, mesh_.mesh(), rank)};
      if (move.to == wanted) {
        const std::int32_t block =
            emitter.persistent(block_of(sum.parameter, sum.term.index), part.bytes());
        moved.push_back(emitter.add_persistent_buffer(block, 0, part));
      } else {
        moved.push_back(emitter.add_arena_buffer(part));
      }
    }
    if (move.kind == MoveKind::kSlice) {
      emitters_.slice(emitters_.all_ranks(), type, move, buffers, moved);
    } else {
      const auto transfers = emitters_.add_move(
          fmt::format("{} gradient of {}", to_string(move.kind), name_of(sum.parameter)), type,
          move);
      for (const int rank : emitters_.all_ranks())
        emitters_[rank].start(transfers[rank], -1, buffers[rank], moved[rank]);
    }
    buffers = std::move(moved);
  }
  return buffers;
}

void GradientTerms::exchange(const std::vector<TermTransfer>& transfers, Lowering lowering) {
  for (const TermTransfer& transfer : transfers)
    if (transfer.from_mesh == mesh_.id() || transfer.to_mesh == mesh_.id())
      exchange_term(transfer, lowering);
}

void GradientTerms::exchange_term(const TermTransfer& transfer, Lowering lowering) {
  const bool sends = transfer.from_mesh == mesh_.id();
  const auto& parameters = mesh_.part().parameters;
  const auto at = std::ranges::find(parameters, transfer.parameter, &LocalParameter::parameter);
  const std::size_t parameter = at - parameters.begin();
  const auto& meshes = mesh_.partition().meshes;
  const std::string name =
      fmt::format("gradient of {} {}->{}", name_of(parameter), meshes[transfer.from_mesh].name(),
                  meshes[transfer.to_mesh].name());
  Buffers& buffers = terms_[parameter][transfer.term];
  for (const int rank : emitters_.all_ranks()) {
    Emitter& emitter = emitters_[rank];
    if (!sends) {
      const TensorType type = mesh_.state_type(at->value, rank);
      const std::int32_t block =
          emitter.persistent(block_of(parameter, transfer.term), type.bytes());
      buffers.push_back(emitter.add_persistent_buffer(block, 0, type));
    }
    const transfer::DevicePart part = transfer.plan.device_part(mesh_.mesh().devices()[rank]);
    if (part.empty()) continue;
    const std::uint32_t added =
        emitter.add_transfer({name, TransferPurpose::kReshard, transfer.op, part});
    const std::optional<std::uint32_t> buffer = buffers[rank];
    const std::uint32_t handle =
        emitter.start(added, -1, sends ? buffer : std::nullopt, sends ? std::nullopt : buffer);
    if (lowering == Lowering::kSafe) emitter.wait(handle);
  }
}

std::vector<std::vector<std::uint32_t>> GradientTerms::add_up() const {
  std::vector<Buffers> gradients;
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    WEFT_CHECK(!terms_[i].empty(), "'{}' has no gradient", name_of(i));
    if (terms_[i].size() == 1) {
      gradients.push_back(terms_[i].begin()->second);
      continue;
    }
    gradients.emplace_back();
    for (const int rank : emitters_.all_ranks()) {
      Emitter& emitter = emitters_[rank];
      const TensorType type = mesh_.state_type(mesh_.part().parameters[i].value, rank);
      const std::int32_t block = emitter.persistent("gradient/" + name_of(i), type.bytes());
      const std::uint32_t sum = emitter.add_persistent_buffer(block, 0, type);
      for (const auto& [term, buffers] : terms_[i])
        emitter.accumulate(buffers[rank], sum, term == 0);
      gradients.back().push_back(sum);
    }
  }
  return gradients;
}

}  // namespace weft::mesh
