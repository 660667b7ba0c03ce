#include "mesh/program/internal/gradient_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/check.h"

namespace weft::mesh {

GradientTerms::GradientTerms(MeshView mesh, const MeshEmitters& emitters, const GradientSums& sums,
                             GradientReduction& reduction,
                             const std::vector<TermTransfer>& transfers, Lowering lowering)
    : mesh_(mesh),
      emitters_(emitters),
      sums_(sums),
      reduction_(reduction),
      transfers_(transfers),
      lowering_(lowering),
      is_started_(transfers.size(), false),
      terms_(mesh.part().parameters.size()) {
  for (const TermTransfer& transfer : transfers)
    is_mine_.push_back(transfer.from_mesh == mesh.id() || transfer.to_mesh == mesh.id());
}

bool GradientTerms::is_at_home(std::size_t sum) const {
  const GradientSum& one = sums_.sums()[sum];
  Spec spec = mesh_.local(one.term.gradient).spec;
  spec.partial.clear();
  return reduction_.is_scattered(sum) || spec == mesh_.local(sums_.parameter_of(one)).spec;
}

std::size_t GradientTerms::parameter_of(const TermTransfer& transfer) const {
  const auto& parameters = mesh_.part().parameters;
  return std::ranges::find(parameters, transfer.parameter, &LocalParameter::parameter) -
         parameters.begin();
}

std::size_t GradientTerms::sum_of(const TermTransfer& transfer) const {
  const std::size_t parameter = parameter_of(transfer);
  return std::ranges::find_if(sums_.sums(),
                              [&](const GradientSum& sum) {
                                return sum.parameter == parameter &&
                                       sum.term.index == transfer.term;
                              }) -
         sums_.sums().begin();
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

void GradientTerms::add_own_term(std::size_t index) {
  const GradientSum& sum = sums_.sums()[index];
  Buffers& term = terms_[sum.parameter][sum.term.index];
  if (!term.empty()) return;
  Spec spec = mesh_.local(sum.term.gradient).spec;
  spec.partial.clear();
  term = is_at_home(index) ? reduction_.whole(index) : reshard(sum, spec);
}

void GradientTerms::start_receipts() {
  if (lowering_ == Lowering::kSafe) return;
  for (std::size_t i = 0; i < transfers_.size(); ++i)
    if (is_mine_[i] && !sends(transfers_[i])) start(i);
}

void GradientTerms::send_complete() {
  if (lowering_ == Lowering::kSafe) return;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    if (!is_mine_[i] || !sends(transfers_[i]) || is_started_[i]) continue;
    const std::size_t sum = sum_of(transfers_[i]);
    if (!reduction_.is_complete(sum) || reduction_.reduces(sum) || !is_at_home(sum)) continue;
    add_own_term(sum);
    start(i);
  }
}

void GradientTerms::finish() {
  if (lowering_ != Lowering::kSafe) {
    // Sends first: other meshes wait for them.
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      if (!is_mine_[i] || !sends(transfers_[i]) || is_started_[i]) continue;
      const std::size_t sum = sum_of(transfers_[i]);
      reduction_.end(sum);
      add_own_term(sum);
      start(i);
    }
  }
  reduction_.finish();
  for (std::size_t sum = 0; sum < sums_.sums().size(); ++sum) add_own_term(sum);
  for (std::size_t i = 0; i < transfers_.size(); ++i)
    if (is_mine_[i]) start(i);
}

void GradientTerms::start(std::size_t index) {
  if (is_started_[index]) return;
  is_started_[index] = true;
  const TermTransfer& transfer = transfers_[index];
  const std::size_t parameter = parameter_of(transfer);
  const auto& meshes = mesh_.partition().meshes;
  const std::string name =
      fmt::format("gradient of {} {}->{}", name_of(parameter), meshes[transfer.from_mesh].name(),
                  meshes[transfer.to_mesh].name());
  Buffers& buffers = terms_[parameter][transfer.term];
  for (const int rank : emitters_.all_ranks()) {
    Emitter& emitter = emitters_[rank];
    if (!sends(transfer)) {
      const TensorType type = mesh_.state_type(mesh_.part().parameters[parameter].value, rank);
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
        emitter.start(added, kNoMicrobatch, sends(transfer) ? buffer : std::nullopt,
                      sends(transfer) ? std::nullopt : buffer);
    if (lowering_ == Lowering::kSafe) emitter.wait(handle);
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
