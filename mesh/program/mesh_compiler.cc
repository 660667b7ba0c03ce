#include "mesh/program/mesh_compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "mesh/program/parameter_blocks.h"
#include "mesh/program/step_order.h"

namespace weft::mesh {

MeshCompiler::MeshCompiler(const Partition& partition, MeshId mesh, const Schedule& schedule,
                           int actor, const std::vector<PlannedEdge>& edges,
                           const std::vector<Lane>& lanes, const transfer::Topology& topology,
                           const CompileOptions& options, TransferOps& ops)
    : partition_(partition),
      mesh_id_(mesh),
      schedule_(schedule),
      actor_(actor),
      mesh_(partition.meshes[mesh]),
      part_(partition.per_mesh[mesh]),
      edges_(edges),
      lanes_(lanes),
      topology_(topology),
      options_(options),
      ops_(ops) {
  for (int rank = 0; rank < num_ranks(); ++rank) {
    emitters_.emplace_back(options.name, mesh_.devices()[rank], device_name(mesh_, rank));
  }
  instances_.resize(emitters_.size());
  parameters_.resize(emitters_.size());
  make_parameters();
  make_gradient_sums();
  size_buckets();
  make_inputs();
  make_ends();
  make_recomputations();
  make_step_transfers();
  make_losses();
}

TensorType MeshCompiler::local_type(LocalId id, int rank) const {
  const TensorType& type = partition_.graph.value(local(id).value).type;
  return {type.dtype, local_shape(type.shape, local(id).spec, mesh_, rank)};
}

TensorType MeshCompiler::state_type(LocalId parameter, int rank) const {
  return {DType::kF32, local_type(parameter, rank).shape};
}

std::string MeshCompiler::value_name(LocalId id) const {
  return partition_.graph.value(local(id).value).name;
}

void MeshCompiler::make_parameters() {
  for (const LocalParameter& parameter : part_.parameters) {
    for (int rank = 0; rank < num_ranks(); ++rank) {
      Emitter& emitter = emitters_[rank];
      const TensorType type = local_type(parameter.value, rank);
      const std::int32_t block = emitter.persistent(
          block_that_ops_read(value_name(parameter.value), type.dtype), type.bytes());
      parameters_[rank][parameter.value] = emitter.add_persistent_buffer(block, 0, type);
    }
  }
}

bool MeshCompiler::only_gradients(const ComputeStep& step) const {
  return std::all_of(step.outputs.begin(), step.outputs.end(), [&](LocalId output) {
    const auto found = gradients_of_.find(output);
    if (found == gradients_of_.end() || found->second.size() != 1) return false;
    const auto reads = [&](LocalId id) { return id == output; };
    for (const Step& other : part_.steps) {
      if (std::ranges::any_of(inputs_of(other), reads)) return false;
    }
    return std::none_of(edges_.begin(), edges_.end(), [&](const PlannedEdge& planned) {
      return planned.edge.from_mesh == mesh_id_ && planned.edge.source == output;
    });
  });
}

void MeshCompiler::make_gradient_sums() {
  std::map<LocalId, StageId> stage_of;
  for (const Step& step : part_.steps) {
    for (const LocalId output : outputs_of(step)) stage_of[output] = step.stage;
  }
  for (std::size_t i = 0; i < part_.parameters.size(); ++i) {
    for (const GradientTerm& term : part_.parameters[i].terms) {
      gradients_of_[term.gradient].push_back(sums_.size());
      const StageId stage = stage_of.at(term.gradient);
      unreduced_.insert(stage);
      const Spec& spec = local(term.gradient).spec;
      sums_.push_back(
          {i,
           term,
           {},
           false,
           false,
           stage,
           {spec.partial, scattered_axes(spec, local(part_.parameters[i].value).spec)}});
    }
  }
  std::map<LocalId, bool> direct;
  for (const Step& step : part_.steps) {
    const auto* compute = std::get_if<ComputeStep>(&step.what);
    if (compute == nullptr) continue;
    const bool all = only_gradients(*compute);
    for (const LocalId output : compute->outputs) direct[output] = all;
  }
  std::vector<std::uint64_t> offsets(sums_.size(), 0);
  for (const StageId stage : unreduced_) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].stage != stage) continue;
      const LocalId gradient = sums_[i].term.gradient;
      sums_[i].direct = direct[gradient];
      SumBlock& block = sum_blocks_[sums_[i].alike];
      offsets[i] = block.bytes;
      // Evenly divided, so every rank has the same size.
      block.bytes += (local_type(gradient, 0).bytes() + 63) / 64 * 64;
      block.stages.try_emplace(stage, offsets[i], 0).first->second.second = block.bytes;
    }
  }
  for (auto& [alike, block] : sum_blocks_) {
    block.name = "gradients";
    for (const int axis : alike.axes) block.name += "/" + mesh_.axes()[axis].name;
    if (!alike.scattered.empty()) block.name += " by " + axes_text(alike.scattered, mesh_);
  }
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const SumBlock& block = sum_blocks_.at(sums_[i].alike);
    for (int rank = 0; rank < num_ranks(); ++rank) {
      Emitter& emitter = emitters_[rank];
      sums_[i].buffers.push_back(
          emitter.add_persistent_buffer(emitter.persistent(block.name, block.bytes), offsets[i],
                                        local_type(sums_[i].term.gradient, rank)));
    }
  }
}

void MeshCompiler::make_inputs() {
  for (const LocalId id : part_.locals.ids()) {
    if (local(id).origin != LocalOrigin::kInput) continue;
    const Value& value = partition_.graph.value(local(id).value);
    for (int rank = 0; rank < num_ranks(); ++rank) {
      inputs_[id] = emitters_[rank].add_input(
          {value.name, value.type.dtype, region_of(value.type.shape, local(id).spec, mesh_, rank)});
    }
  }
}

void MeshCompiler::make_ends() {
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const MeshEdge& edge = edges_[e].edge;
    if (edge.from_mesh != mesh_id_ && edge.to_mesh != mesh_id_) continue;
    End end;
    end.edge = e;
    end.sends = edge.from_mesh == mesh_id_;
    const std::string name = fmt::format("{} {}->{}", partition_.graph.value(edge.value).name,
                                         partition_.meshes[edge.from_mesh].name(),
                                         partition_.meshes[edge.to_mesh].name());
    for (Emitter& emitter : emitters_) {
      const std::size_t rank = &emitter - emitters_.data();
      const transfer::DevicePart part = edges_[e].plan.device_part(mesh_.devices()[rank]);
      end.transfer.push_back(part.empty()
                                 ? std::nullopt
                                 : std::optional(emitter.add_transfer(
                                       {name, TransferKind::kReshard, edges_[e].op, part})));
    }
    ends_.push_back(std::move(end));
  }
}

void MeshCompiler::make_losses() {
  losses_.assign(emitters_.size(), -1);
  if (partition_.loss_mesh != mesh_id_) return;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    Emitter& emitter = emitters_[rank];
    const TensorType type{DType::kF32, {schedule_.microbatches}};
    const std::int32_t block = emitter.persistent("losses/" + options_.name, type.bytes());
    losses_[rank] = block;
    const std::uint32_t whole = emitter.add_persistent_buffer(block, 0, type);
    if (is_first_replica(local(partition_.loss_local).spec, mesh_, rank)) emitter.set_losses(whole);
  }
}

void MeshCompiler::post_first_receives() {
  for (End& end : ends_) {
    if (!end.sends) post_receives(end, options_.credits);
  }
}

void MeshCompiler::emit_action(std::size_t index) {
  const Action& action = schedule_.actors[actor_][index];
  const StageId stage(action.stage);
  for (Emitter& emitter : emitters_) emitter.begin(action.stage, action.kind, action.microbatch);
  if (const auto again = recomputations_.find(stage);
      again != recomputations_.end() && again->second.before(action.kind)) {
    emit_recomputation(again->second, action.microbatch);
  }
  if (action.kind == ActionKind::kReduceGrad) start_reduction({stage});
  emit_steps(stage, action.kind, action.microbatch);
  if (const auto again = recomputations_.find(stage);
      again != recomputations_.end() && runs(action.kind, Pass::kForward)) {
    for (auto& instances : instances_) {
      for (const LocalId id : again->second.what.dropped) instances.erase({id, action.microbatch});
    }
  }
  if (options_.lowering == Lowering::kSafe) return;
  // What this action has used makes room for the next receives.
  for (End& end : ends_) {
    if (end.sends) continue;
    const auto& uses = lanes_[end.edge].uses;
    const auto use = std::find_if(uses.begin(), uses.end(), [&](const Lane::Use& candidate) {
      return candidate.action == index;
    });
    if (use == uses.end()) continue;
    post_receives(end, use - uses.begin() + 1 + options_.credits);
  }
  // What has arrived by now need not be kept. A device's program waits in the order in which it has
  // sent.
  std::vector<Unfinished> arrived;
  const auto later = unfinished_.upper_bound(index);
  for (auto at = unfinished_.begin(); at != later; ++at) arrived.push_back(at->second);
  unfinished_.erase(unfinished_.begin(), later);
  std::ranges::sort(arrived, {}, &Unfinished::handle);
  for (const Unfinished& send : arrived) emitters_[send.rank].wait(send.handle);
}

void MeshCompiler::emit_steps(StageId stage, ActionKind kind, int microbatch) {
  for (const std::size_t step : steps_of(part_, stage, kind)) emit_step(step, microbatch);
}

void MeshCompiler::emit_recomputation(const Recomputation& recomputation, int microbatch) {
  for (const std::size_t step : recomputation.order) emit_step(step, microbatch, Round::kAgain);
}

void MeshCompiler::post_receives(End& end, std::size_t up_to) {
  const auto& uses = lanes_[end.edge].uses;
  for (; end.posted < std::min(up_to, uses.size()); ++end.posted) {
    const int microbatch = uses[end.posted].microbatch;
    const LocalId destination = edges_[end.edge].edge.destination;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      const std::size_t r = rank;
      if (!end.transfer[r]) continue;
      const std::uint32_t buffer = emitters_[r].add_arena_buffer(local_type(destination, rank));
      instances_[r][{destination, microbatch}] = buffer;
      emitters_[r].start(*end.transfer[r], microbatch, std::nullopt, buffer);
    }
  }
}

void MeshCompiler::send(LocalId local_id, int microbatch) {
  for (const End& end : ends_) {
    if (!end.sends || edges_[end.edge].edge.source != local_id) continue;
    OutgoingTensor outgoing{end.edge, microbatch, {}};
    for (int rank = 0; rank < num_ranks(); ++rank)
      outgoing.sources.push_back(instance(local_id, microbatch, rank));
    if (options_.lowering == Lowering::kSafe) {
      outgoing_.push_back(std::move(outgoing));
      continue;
    }
    const std::size_t arrived_before = lanes_[end.edge].arrived_before[microbatch];
    for (std::size_t r = 0; r < emitters_.size(); ++r) {
      if (!end.transfer[r]) continue;
      const std::uint32_t handle =
          emitters_[r].start(*end.transfer[r], microbatch, outgoing.sources[r], std::nullopt);
      unfinished_.insert({arrived_before, {r, handle}});
    }
  }
}

void MeshCompiler::transfer_now(const OutgoingTensor& outgoing) {
  const auto end = std::find_if(ends_.begin(), ends_.end(), [&](const End& candidate) {
    return candidate.edge == outgoing.edge;
  });
  WEFT_CHECK(end != ends_.end(), "edge {}", outgoing.edge);
  const LocalId destination = edges_[outgoing.edge].edge.destination;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const std::size_t r = rank;
    if (!end->transfer[r]) continue;
    std::optional<std::uint32_t> source, target;
    if (end->sends) {
      source = outgoing.sources[r];
    } else {
      target = instance(destination, outgoing.microbatch, rank);
    }
    emitters_[r].wait(emitters_[r].start(*end->transfer[r], outgoing.microbatch, source, target));
  }
}

std::uint32_t MeshCompiler::instance(LocalId id, int microbatch, int rank) {
  const std::size_t r = rank;
  if (const auto found = parameters_[r].find(id); found != parameters_[r].end())
    return found->second;
  if (local(id).once_per_step) microbatch = -1;
  const auto found = instances_[r].find({id, microbatch});
  if (found != instances_[r].end()) return found->second;
  const std::uint32_t buffer = emitters_[r].add_arena_buffer(local_type(id, rank));
  instances_[r][{id, microbatch}] = buffer;
  if (const auto input = inputs_.find(id); input != inputs_.end())
    emitters_[r].read(input->second, buffer, microbatch);
  return buffer;
}

void MeshCompiler::emit_step(std::size_t index, int microbatch, Round round) {
  const Step& step = part_.steps[index];
  const std::vector<LocalId> outputs = outputs_of(step);
  if (const auto* compute = std::get_if<ComputeStep>(&step.what)) {
    emit_compute(*compute, microbatch, round);
  } else {
    emit_move(index, microbatch, round);
  }
  // The first round has sent it and, of a gradient, there is none in a forward.
  if (round == Round::kAgain) return;
  for (const LocalId output : outputs) {
    add_gradient(output, microbatch);
    send(output, microbatch);
  }
}

void MeshCompiler::emit_move(std::size_t index, int microbatch, Round round) {
  const auto& [input, output, move] = std::get<MoveStep>(part_.steps[index].what);
  if (local(output).once_per_step && instances_.front().contains({output, -1})) return;
  std::vector<std::uint32_t> sources, destinations;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    sources.push_back(instance(input, microbatch, rank));
    destinations.push_back(instance(output, microbatch, rank));
  }
  if (move.kind == MoveKind::kSlice)
    return slice(partition_.graph.value(local(input).value).type, move, sources, destinations);
  const auto& transfers =
      round == Round::kFirst ? step_transfer_[index] : step_transfer_again_[index];
  for (std::size_t r = 0; r < emitters_.size(); ++r) {
    const std::uint32_t handle =
        emitters_[r].start(transfers[r], microbatch, sources[r], destinations[r]);
    if (options_.lowering == Lowering::kSafe) emitters_[r].wait(handle);
  }
}

Op MeshCompiler::op_of(const ComputeStep& step, int rank) const {
  const Node& node = partition_.graph.node(step.node);
  const FactorSignature signature = factor_signature(partition_.graph, node);
  if (signature.located_factor < 0) return node.op;
  const auto range = [&](const std::vector<LocalId>& locals,
                         const std::vector<std::vector<int>>& factors) -> std::optional<Interval> {
    for (std::size_t t = 0; t < locals.size(); ++t) {
      const auto at = std::ranges::find(factors[t], signature.located_factor);
      if (at == factors[t].end()) continue;
      const LocalValue& value = local(locals[t]);
      const Region region =
          region_of(partition_.graph.value(value.value).type.shape, value.spec, mesh_, rank);
      return region.intervals()[at - factors[t].begin()];
    }
    return std::nullopt;
  };
  std::optional<Interval> slice = range(step.inputs, signature.inputs);
  if (!slice) slice = range(step.outputs, signature.outputs);
  WEFT_CHECK(slice.has_value(), "no tensor of {} has its located factor", to_string(node.op));
  return op_of_slice(node.op, slice->begin, slice->size());
}

void MeshCompiler::emit_compute(const ComputeStep& step, int microbatch, Round round) {
  const auto gradient = gradients_of_.find(step.outputs.front());
  const bool direct = gradient != gradients_of_.end() && sums_[gradient->second.front()].direct;
  const bool accumulate = direct && sums_[gradient->second.front()].started;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const std::size_t r = rank;
    const Coordinate coordinate = mesh_.coordinate(rank);
    const bool applies_once = std::all_of(step.once_axes.begin(), step.once_axes.end(),
                                          [&](int axis) { return coordinate[axis] == 0; });
    std::vector<std::uint32_t> inputs, outputs;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const bool once = std::find(step.once_inputs.begin(), step.once_inputs.end(),
                                  static_cast<int>(i)) != step.once_inputs.end();
      if (once && !applies_once) continue;
      inputs.push_back(instance(step.inputs[i], microbatch, rank));
    }
    for (const LocalId output : step.outputs) {
      if (direct) {
        outputs.push_back(sums_[gradients_of_.at(output).front()].buffers[r]);
      } else if (partition_.loss_mesh == mesh_id_ && output == partition_.loss_local) {
        const std::uint32_t loss = emitters_[r].add_persistent_buffer(
            losses_[r], static_cast<std::uint64_t>(microbatch) * 4, {DType::kF32, {}});
        instances_[r][{output, microbatch}] = loss;
        outputs.push_back(loss);
      } else if (round == Round::kAgain && instances_[r].contains({output, microbatch})) {
        // It is still there, and may be on its way.
        outputs.push_back(emitters_[r].add_arena_buffer(local_type(output, rank)));
      } else {
        outputs.push_back(instance(output, microbatch, rank));
      }
    }
    emitters_[r].run(op_of(step, rank), std::move(inputs), std::move(outputs), accumulate);
  }
  if (direct) {
    for (const LocalId output : step.outputs)
      sums_[gradients_of_.at(output).front()].started = true;
  }
}

void MeshCompiler::add_gradient(LocalId id, int microbatch) {
  const auto found = gradients_of_.find(id);
  if (found == gradients_of_.end()) return;
  for (const std::size_t index : found->second) {
    GradientSum& sum = sums_[index];
    if (sum.direct) continue;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      const std::size_t r = rank;
      emitters_[r].accumulate(instance(id, microbatch, rank), sum.buffers[r], !sum.started);
    }
    sum.started = true;
  }
}

std::vector<Program> MeshCompiler::finish() {
  std::vector<Program> programs;
  for (Emitter& emitter : emitters_) {
    emitter.wait_for_all();
    programs.push_back(emitter.finish());
  }
  return programs;
}

}  // namespace weft::mesh
