#include <fmt/format.h>

#include "core/base/check.h"
#include "mesh/program/mesh_compiler.h"
#include "mesh/program/parameter_blocks.h"

namespace weft::mesh {

std::vector<std::uint32_t> MeshCompiler::add_group_plans(const std::string& name, TransferKind kind,
                                                         const std::vector<GroupPlan>& plans) {
  std::vector<std::uint32_t> transfers(emitters_.size());
  for (const GroupPlan& group : plans) {
    const std::uint32_t op = ops_.add_in_mesh(group.plan);
    for (const int rank : group.ranks) {
      const transfer::DevicePart part = std::visit(
          [&](const auto& plan) { return plan.device_part(mesh_.devices()[rank]); }, group.plan);
      transfers[rank] = emitters_[rank].add_transfer({name, kind, op, part});
    }
  }
  return transfers;
}

std::vector<std::uint32_t> MeshCompiler::add_move(const std::string& name, const TensorType& type,
                                                  const Move& move) {
  return add_group_plans(
      name, move.kind == MoveKind::kAllReduce ? TransferKind::kAllReduce : TransferKind::kInMesh,
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

void MeshCompiler::slice(const TensorType& type, const Move& move,
                         const std::vector<std::uint32_t>& sources,
                         const std::vector<std::uint32_t>& destinations) {
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const Region held = region_of(type.shape, move.from, mesh_, rank);
    const Region kept = region_of(type.shape, move.to, mesh_, rank);
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      const Interval whole = held.intervals()[d], part = kept.intervals()[d];
      if (whole == part) continue;
      emitters_[rank].run({OpKind::kSlice,
                           {{"dim", static_cast<std::int64_t>(d)},
                            {"begin", part.begin - whole.begin},
                            {"size", part.end - part.begin}}},
                          {sources[rank]}, {destinations[rank]}, false);
    }
  }
}

void MeshCompiler::make_step_transfers() {
  step_transfer_again_.resize(part_.steps.size());
  for (std::size_t i = 0; i < part_.steps.size(); ++i) {
    step_transfer_.push_back(add_step_transfer(part_.steps[i], ""));
    // Known by a number of its own: it happens a second time for the same microbatch.
    const auto again = recomputations_.find(part_.steps[i].stage);
    if (again != recomputations_.end() && again->second.what.steps.contains(i)) {
      step_transfer_again_[i] = add_step_transfer(part_.steps[i], " again");
    }
  }
}

void MeshCompiler::start_reduction(const std::set<StageId>& stages) {
  for (const StageId stage : stages) unreduced_.erase(stage);
  for (const auto& [axes, block] : sum_blocks_) {
    if (axes.empty()) continue;
    // Pieces that lie side by side go together.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
    std::string name = "all-reduce " + block.name;
    for (const auto& [stage, piece] : block.stages) {
      if (!stages.contains(stage)) continue;
      if (stages.size() == 1 && block.stages.size() > 1) name += fmt::format(" of stage {}", stage);
      if (pieces.empty() || pieces.back().second != piece.first) {
        pieces.push_back(piece);
      } else {
        pieces.back().second = piece.second;
      }
    }
    for (const auto& [begin, end] : pieces) {
      const TensorType type{DType::kF32,
                            {static_cast<std::int64_t>((end - begin) / size_of(DType::kF32))}};
      const auto transfers = add_group_plans(name, TransferKind::kAllReduce,
                                             plan_all_reduce(type, axes, mesh_, topology_));
      for (std::size_t r = 0; r < emitters_.size(); ++r) {
        const std::int32_t persistent = emitters_[r].persistent(block.name, block.bytes);
        const std::uint32_t piece = emitters_[r].add_persistent_buffer(persistent, begin, type);
        const std::uint32_t handle = emitters_[r].start(transfers[r], -1, piece, piece);
        if (options_.lowering == Lowering::kSafe) emitters_[r].wait(handle);
      }
    }
  }
}

std::string MeshCompiler::term_block(std::size_t parameter, int term) const {
  return fmt::format("gradient/{}/{}", value_name(part_.parameters[parameter].value), term);
}

std::vector<std::uint32_t> MeshCompiler::final_term(std::size_t index) {
  const GradientSum& sum = sums_[index];
  const LocalParameter& parameter = part_.parameters[sum.parameter];
  Spec spec = local(sum.term.gradient).spec;
  spec.partial.clear();
  const Spec& wanted = local(parameter.value).spec;
  if (spec == wanted) return sum.buffers;
  // The gradient came out split otherwise than the parameter: bring it into the parameter's place,
  // once per step.
  const TensorType type{DType::kF32,
                        partition_.graph.value(local(parameter.value).value).type.shape};
  const std::vector<Move> moves = plan_moves(type.shape, spec, wanted, mesh_);
  std::vector<std::uint32_t> buffers = sum.buffers;
  for (const Move& move : moves) {
    std::vector<std::uint32_t> moved;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      Emitter& emitter = emitters_[rank];
      const TensorType part{DType::kF32, local_shape(type.shape, move.to, mesh_, rank)};
      moved.push_back(
          move.to == wanted
              ? emitter.add_persistent_buffer(
                    emitter.persistent(term_block(sum.parameter, sum.term.index), part.bytes()), 0,
                    part)
              : emitter.add_arena_buffer(part));
    }
    if (move.kind == MoveKind::kSlice) {
      slice(type, move, buffers, moved);
    } else {
      const auto transfers = add_move(
          fmt::format("{} gradient of {}", to_string(move.kind), value_name(parameter.value)), type,
          move);
      for (std::size_t r = 0; r < emitters_.size(); ++r)
        emitters_[r].start(transfers[r], -1, buffers[r], moved[r]);
    }
    buffers = std::move(moved);
  }
  return buffers;
}

std::vector<std::vector<std::uint32_t>> MeshCompiler::final_gradients(
    const std::vector<TermTransfer>& transfers) {
  // By term index: buffers by rank.
  std::vector<std::map<int, std::vector<std::uint32_t>>> terms(part_.parameters.size());
  for (std::size_t i = 0; i < sums_.size(); ++i)
    terms[sums_[i].parameter][sums_[i].term.index] = final_term(i);
  for (const TermTransfer& transfer : transfers) {
    const bool sends = transfer.from_mesh == mesh_id_;
    if (!sends && transfer.to_mesh != mesh_id_) continue;
    const auto at = std::find_if(
        part_.parameters.begin(), part_.parameters.end(),
        [&](const LocalParameter& parameter) { return parameter.parameter == transfer.parameter; });
    const std::size_t index = at - part_.parameters.begin();
    std::vector<std::uint32_t>& buffers = terms[index][transfer.term];
    const std::string name = fmt::format("gradient of {} {}->{}", value_name(at->value),
                                         partition_.meshes[transfer.from_mesh].name(),
                                         partition_.meshes[transfer.to_mesh].name());
    for (std::size_t r = 0; r < emitters_.size(); ++r) {
      Emitter& emitter = emitters_[r];
      if (!sends) {
        const TensorType type = state_type(at->value, r);
        const std::int32_t block =
            emitter.persistent(term_block(index, transfer.term), type.bytes());
        buffers.push_back(emitter.add_persistent_buffer(block, 0, type));
      }
      const transfer::DevicePart part = transfer.plan.device_part(mesh_.devices()[r]);
      if (part.empty()) continue;
      const std::uint32_t added =
          emitter.add_transfer({name, TransferKind::kReshard, transfer.op, part});
      const std::optional<std::uint32_t> buffer = buffers[r];
      const std::uint32_t handle =
          emitter.start(added, -1, sends ? buffer : std::nullopt, sends ? std::nullopt : buffer);
      if (options_.lowering == Lowering::kSafe) emitter.wait(handle);
    }
  }
  std::vector<std::vector<std::uint32_t>> gradients;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    WEFT_CHECK(!terms[i].empty(), "'{}' has no gradient", value_name(part_.parameters[i].value));
    if (terms[i].size() == 1) {
      gradients.push_back(terms[i].begin()->second);
      continue;
    }
    gradients.emplace_back();
    for (std::size_t r = 0; r < emitters_.size(); ++r) {
      const TensorType type = state_type(part_.parameters[i].value, r);
      const std::int32_t block = emitters_[r].persistent(
          "gradient/" + value_name(part_.parameters[i].value), type.bytes());
      const std::uint32_t sum = emitters_[r].add_persistent_buffer(block, 0, type);
      for (const auto& [term, buffers] : terms[i])
        emitters_[r].accumulate(buffers[r], sum, term == 0);
      gradients.back().push_back(sum);
    }
  }
  return gradients;
}

void MeshCompiler::emit_update(const std::vector<TermTransfer>& terms, std::uint32_t norm_op,
                               const transfer::ReshardPlan& norm_plan,
                               const std::vector<transfer::DeviceId>& all_devices) {
  start_reduction(std::set<StageId>(unreduced_));
  for (Emitter& emitter : emitters_) emitter.wait_for_all();
  const std::vector<std::vector<std::uint32_t>> gradients = final_gradients(terms);
  for (std::size_t i = 0; i < part_.parameters.size(); ++i) {
    const LocalParameter& parameter = part_.parameters[i];
    const Parameter& logical = partition_.graph.parameters()[parameter.parameter];
    const Value& value = partition_.graph.value(logical.value);
    const Spec& spec = local(parameter.value).spec;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      const std::size_t r = rank;
      const TensorType type = state_type(parameter.value, rank);
      const std::vector<std::string> blocks = checkpoint_blocks(value.name);
      const auto state = [&](std::size_t block) {
        return emitters_[r].add_persistent_buffer(
            emitters_[r].persistent(blocks[block], type.bytes()), 0, type);
      };
      const std::uint32_t read = parameters_[r].at(parameter.value);
      const bool copied = value.type.dtype != DType::kF32;
      emitters_[r].add_parameter({value.name, static_cast<std::uint32_t>(parameter.parameter),
                                  value.type.shape, region_of(value.type.shape, spec, mesh_, rank),
                                  static_cast<std::uint8_t>(logical.initializer.kind),
                                  logical.initializer.standard_deviation, logical.decay,
                                  parameter.is_home && is_first_replica(spec, mesh_, rank),
                                  copied ? state(0) : read, gradients[i][r], state(1), state(2),
                                  copied ? static_cast<std::int32_t>(read) : -1});
    }
  }
  for (std::size_t r = 0; r < emitters_.size(); ++r) {
    Emitter& emitter = emitters_[r];
    emitter.wait_for_all();
    const std::int64_t rows = all_devices.size();
    const std::int64_t columns = partition_.graph.parameters().size();
    const TensorType row{DType::kF64, {1, columns}}, table{DType::kF64, {rows, columns}};
    const auto on_host = [&](const std::string& name, const TensorType& type) {
      return emitter.add_persistent_buffer(
          emitter.persistent(name, type.bytes(), MemoryPlace::kHost), 0, type);
    };
    const std::uint32_t own = on_host("norms/own", row), all = on_host("norms/all", table);
    emitter.norm(own);
    const std::uint32_t gather = emitter.add_transfer(
        {"norms", TransferKind::kNorm, norm_op, norm_plan.device_part(mesh_.devices()[r])});
    emitter.wait(emitter.start(gather, -1, own, all));
    emitter.update(all);
  }
}

}  // namespace weft::mesh
