#include "mesh/program/mesh_compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "mesh/program/parameter_blocks.h"
#include "mesh/program/step_order.h"

namespace weft::mesh {

MeshCompiler::MeshCompiler(const Partition& partition, MeshId mesh, const Schedule& schedule,
                           const std::vector<int>& actors, const std::vector<PlannedEdge>& edges,
                           const std::vector<Lane>& lanes, const transfer::Topology& topology,
                           const CompileOptions& options, TransferNumbers& ops,
                           std::map<transfer::DeviceId, Emitter>& emitters)
    : partition_(partition),
      mesh_id_(mesh),
      schedule_(schedule),
      actor_of_rank_(actors),
      mesh_(partition.meshes[mesh]),
      part_(partition.per_mesh[mesh]),
      edges_(edges),
      lanes_(lanes),
      topology_(topology),
      options_(options),
      ops_(ops) {
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const transfer::DeviceId device = mesh_.devices()[rank];
    emitters_.push_back(
        &emitters.try_emplace(device, options.name, device, device_name(mesh_, rank))
             .first->second);
    ranks_of_actor_[actor_of_rank_[rank]].push_back(rank);
    all_ranks_.push_back(rank);
  }
  active_ = &all_ranks_;
  unfinished_.resize(emitters_.size());
  instances_.resize(emitters_.size());
  parameters_.resize(emitters_.size());
  make_parameters();
  make_gradient_sums();
  size_buckets();
  make_inputs();
  add_edge_sides();
  make_recomputations();
  make_deferred_scores();
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
      Emitter& emitter = this->emitter(rank);
      const TensorType type = local_type(parameter.value, rank);
      const std::int32_t block =
          emitter.persistent(working_block(value_name(parameter.value), type.dtype), type.bytes());
      parameters_[rank][parameter.value] = emitter.add_persistent_buffer(block, 0, type);
    }
  }
}

std::set<LocalId> MeshCompiler::values_read() const {
  std::set<LocalId> read;
  for (const Step& step : part_.steps)
    for (const LocalId input : inputs_of(step)) read.insert(input);
  for (const PlannedEdge& planned : edges_)
    if (planned.edge.from_mesh == mesh_id_) read.insert(planned.edge.source);
  return read;
}

bool MeshCompiler::only_gradients(const ComputeStep& step, const std::set<LocalId>& read) const {
  return std::ranges::all_of(step.outputs, [&](LocalId output) {
    const auto found = gradients_of_.find(output);
    return found != gradients_of_.end() && found->second.size() == 1 && !read.contains(output);
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
           std::vector<bool>(emitters_.size(), false),
           stage,
           {spec.partial, scattered_axes(spec, local(part_.parameters[i].value).spec)}});
    }
  }
  const std::set<LocalId> read = values_read();
  std::map<LocalId, bool> direct;
  for (const Step& step : part_.steps) {
    const auto* compute = std::get_if<ComputeStep>(&step.what);
    if (compute == nullptr) continue;
    const bool all = only_gradients(*compute, read);
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
      // Shards are even, so that every rank has the same size.
      block.bytes += (local_type(gradient, 0).bytes() + 63) / 64 * 64;
      block.stages.try_emplace(stage, offsets[i], 0).first->second.second = block.bytes;
    }
  }
  for (auto& [alike, block] : sum_blocks_) {
    block.name = spans() ? "gradients on " + mesh_.name() : "gradients";
    for (const int axis : alike.axes) block.name += "/" + mesh_.axes()[axis].name;
    if (!alike.scattered.empty()) block.name += " by " + axes_text(alike.scattered, mesh_);
  }
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const SumBlock& block = sum_blocks_.at(sums_[i].alike);
    for (int rank = 0; rank < num_ranks(); ++rank) {
      Emitter& emitter = this->emitter(rank);
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
      inputs_[{id, rank}] = emitter(rank).add_input(
          {value.name, value.type.dtype, region_of(value.type.shape, local(id).spec, mesh_, rank)});
    }
  }
}

void MeshCompiler::add_edge_sides() {
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const MeshEdge& edge = edges_[e].edge;
    if (edge.from_mesh != mesh_id_ && edge.to_mesh != mesh_id_) continue;
    EdgeSide end;
    end.edge = e;
    end.sends = edge.from_mesh == mesh_id_;
    const std::string name = fmt::format("{} {}->{}", partition_.graph.value(edge.value).name,
                                         partition_.meshes[edge.from_mesh].name(),
                                         partition_.meshes[edge.to_mesh].name());
    const DeviceMesh& senders = partition_.meshes[edge.from_mesh];
    end.posted.assign(emitters_.size(), 0);
    for (const int rank : all_ranks_) {
      const transfer::DeviceId device = mesh_.devices()[rank];
      const transfer::DevicePart part = edges_[e].plan.device_part(device);
      const bool here = !part.empty() && (end.sends || !senders.rank_of(device));
      end.transfer.push_back(here ? std::optional(emitter(rank).add_transfer(
                                        {name, TransferPurpose::kReshard, edges_[e].op, part}))
                                  : std::nullopt);
    }
    edge_sides_.push_back(std::move(end));
  }
}

void MeshCompiler::make_losses() {
  losses_.assign(emitters_.size(), -1);
  if (partition_.loss_mesh != mesh_id_) return;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    Emitter& emitter = this->emitter(rank);
    const TensorType type{DType::kF32, {schedule_.microbatches}};
    const std::int32_t block =
        emitter.persistent(PersistentBlock::kLosses + options_.name, type.bytes());
    losses_[rank] = block;
    const std::uint32_t whole = emitter.add_persistent_buffer(block, 0, type);
    if (is_first_replica(local(partition_.loss_local).spec, mesh_, rank)) emitter.set_losses(whole);
  }
}

void MeshCompiler::post_first_receives(int actor) {
  set_active_actor(actor);
  for (EdgeSide& end : edge_sides_) {
    if (end.sends) continue;
    for (const int rank : *active_) post_receives(end, rank, options_.credits);
  }
}

std::optional<StageId> MeshCompiler::stage_here(const Action& action) const {
  const std::optional<StageId> stage = stage_of(partition_, action);
  return stage && partition_.mesh_of_stage[*stage] == mesh_id_ ? stage : std::nullopt;
}

void MeshCompiler::emit_action(ActionPlace place, const Between& between) {
  set_active_actor(place.actor);
  const Action& action = schedule_.actors[place.actor][place.index];
  const std::optional<StageId> stage = stage_here(action);
  if (!stage) return;
  if (action.kind == ActionKind::kReduceGrad) start_reduction({*stage});
  const std::vector<ActionStep> steps = steps_of_action(*stage, action.kind);
  double all = 0, done = 0;
  if (between)
    for (const ActionStep& one : steps) all += nominal_seconds_of(one);
  for (const ActionStep& one : steps) {
    set_active_actor(place.actor);
    emit_step(one.step, action.microbatch, one.round);
    if (!between) continue;
    done += nominal_seconds_of(one);
    between(all > 0 ? done / all : 0);
  }
  const auto again = recomputations_.find(*stage);
  if (again == recomputations_.end() || !runs_pass(action.kind, Pass::kForward)) return;
  for (const int rank : *active_) {
    for (const LocalId id : again->second.what.dropped)
      instances_[rank].erase({id, action.microbatch});
  }
}

std::vector<MeshCompiler::ActionStep> MeshCompiler::steps_of_action(StageId stage,
                                                                    ActionKind kind) const {
  std::vector<ActionStep> steps;
  const auto again = recomputations_.find(stage);
  if (again != recomputations_.end() && again->second.runs_before(kind))
    for (const std::size_t step : again->second.order)
      steps.push_back({step, EmitRound::kRecompute});
  const int barriers = schedule_.vocabulary_barriers;
  // With two barriers, the second half of S is the beginning of T, which needs the exchange too.
  if (kind == ActionKind::kVocabularyGrads && barriers == 2) {
    for (const std::size_t step : steps_of(part_, stage, ActionKind::kVocabularyScores, barriers))
      if (deferred_scores_.contains(step)) steps.push_back({step});
  }
  for (const std::size_t step : steps_of(part_, stage, kind, barriers))
    if (!deferred_scores_.contains(step)) steps.push_back({step});
  return steps;
}

double MeshCompiler::nominal_seconds_of(const ActionStep& one) const {
  const auto* compute = std::get_if<ComputeStep>(&part_.steps[one.step].what);
  if (compute == nullptr) return 0;
  return nominal_seconds(partition_.graph, partition_.graph.node(compute->node));
}

void MeshCompiler::emit_deferred_scores(int actor, int microbatch) {
  set_active_actor(actor);
  for (const std::size_t step :
       steps_of(part_, partition_.vocabulary->output, ActionKind::kVocabularyScores,
                schedule_.vocabulary_barriers))
    if (deferred_scores_.contains(step)) emit_step(step, microbatch);
}

void MeshCompiler::finish_action(ActionPlace place) {
  set_active_actor(place.actor);
  // The buffers that this action used free credits for the next receives.
  for (EdgeSide& end : edge_sides_) {
    if (end.sends) continue;
    const auto& uses = lanes_[end.edge].uses.at(place.actor);
    const auto use = std::find_if(uses.begin(), uses.end(), [&](const Lane::FirstUse& candidate) {
      return candidate.action == place.index;
    });
    if (use == uses.end()) continue;
    for (const int rank : *active_)
      post_receives(end, rank, use - uses.begin() + 1 + options_.credits);
  }
  // Release the sources of sends that have arrived. Each program waits in the order of its sends.
  for (const int rank : *active_) {
    auto& unfinished = unfinished_[rank];
    std::vector<std::uint32_t> arrived;
    const auto later = unfinished.upper_bound(place.index);
    for (auto at = unfinished.begin(); at != later; ++at) arrived.push_back(at->second);
    unfinished.erase(unfinished.begin(), later);
    std::ranges::sort(arrived);
    for (const std::uint32_t handle : arrived) emitter(rank).wait(handle);
  }
}

void MeshCompiler::post_receives(EdgeSide& end, int rank, std::size_t up_to) {
  const auto& uses = lanes_[end.edge].uses.at(actor_of_rank_[rank]);
  for (std::size_t& posted = end.posted[rank]; posted < std::min(up_to, uses.size()); ++posted) {
    if (!end.transfer[rank]) continue;
    const int microbatch = uses[posted].microbatch;
    emitter(rank).start(*end.transfer[rank], microbatch, std::nullopt,
                        instance(edges_[end.edge].edge.destination, microbatch, rank));
  }
}

void MeshCompiler::send(LocalId local_id, int microbatch) {
  for (const EdgeSide& end : edge_sides_) {
    if (!end.sends || edges_[end.edge].edge.source != local_id) continue;
    if (options_.lowering == Lowering::kSafe) {
      const auto key = std::pair(end.edge, microbatch);
      OutgoingTensor& outgoing =
          incomplete_.try_emplace(key, OutgoingTensor{end.edge, microbatch, {}}).first->second;
      for (const int rank : *active_) outgoing.sources[rank] = instance(local_id, microbatch, rank);
      if (outgoing.sources.size() < emitters_.size()) continue;
      outgoing_.push_back(std::move(outgoing));
      incomplete_.erase(key);
      continue;
    }
    for (const int rank : *active_) {
      if (!end.transfer[rank]) continue;
      const std::uint32_t handle =
          emitter(rank).start(*end.transfer[rank], microbatch, instance(local_id, microbatch, rank),
                              destination_here(end, microbatch, rank));
      unfinished_[rank].insert(
          {lanes_[end.edge].arrival_known_at.at(actor_of_rank_[rank])[microbatch], handle});
    }
  }
}

std::optional<std::uint32_t> MeshCompiler::destination_here(const EdgeSide& end, int microbatch,
                                                            int rank) {
  const MeshEdge& edge = edges_[end.edge].edge;
  const auto other = partition_.meshes[edge.to_mesh].rank_of(mesh_.devices()[rank]);
  if (!other) return std::nullopt;
  return (*all_)[edge.to_mesh]->instance(edge.destination, microbatch, *other);
}

void MeshCompiler::emit_blocking_transfer(const OutgoingTensor& outgoing) {
  const auto end =
      std::find_if(edge_sides_.begin(), edge_sides_.end(),
                   [&](const EdgeSide& candidate) { return candidate.edge == outgoing.edge; });
  WEFT_CHECK(end != edge_sides_.end(), "edge {}", outgoing.edge);
  const LocalId destination = edges_[outgoing.edge].edge.destination;
  for (const int rank : all_ranks_) {
    if (!end->transfer[rank]) continue;
    std::optional<std::uint32_t> source, target;
    if (end->sends) {
      source = outgoing.sources.at(rank);
      target = destination_here(*end, outgoing.microbatch, rank);
    } else {
      target = instance(destination, outgoing.microbatch, rank);
    }
    emitter(rank).wait(
        emitter(rank).start(*end->transfer[rank], outgoing.microbatch, source, target));
  }
}

std::uint32_t MeshCompiler::instance(LocalId id, int microbatch, int rank) {
  const std::size_t r = rank;
  if (const auto found = parameters_[r].find(id); found != parameters_[r].end())
    return found->second;
  if (local(id).once_per_step) microbatch = -1;
  const auto found = instances_[r].find({id, microbatch});
  if (found != instances_[r].end()) return found->second;
  const std::uint32_t buffer = emitter(rank).add_arena_buffer(local_type(id, rank));
  instances_[r][{id, microbatch}] = buffer;
  if (const auto input = inputs_.find({id, rank}); input != inputs_.end())
    emitter(rank).read(input->second, buffer, microbatch);
  return buffer;
}

void MeshCompiler::emit_step(std::size_t index, int microbatch, EmitRound round) {
  const Step& step = part_.steps[index];
  const std::vector<LocalId> outputs = outputs_of(step);
  if (const auto* compute = std::get_if<ComputeStep>(&step.what)) {
    emit_compute(*compute, microbatch, round);
  } else {
    emit_move(index, microbatch, round);
  }
  // The first round has sent the output, and a forward computes no gradients.
  if (round == EmitRound::kRecompute) return;
  for (const LocalId output : outputs) {
    add_gradient(output, microbatch);
    send(output, microbatch);
  }
}

void MeshCompiler::emit_move(std::size_t index, int microbatch, EmitRound round) {
  const auto& [input, output, move] = std::get<MoveStep>(part_.steps[index].what);
  if (local(output).once_per_step && instances_[active_->front()].contains({output, -1})) return;
  std::vector<std::uint32_t> sources(emitters_.size()), destinations(emitters_.size());
  for (const int rank : *active_) {
    sources[rank] = instance(input, microbatch, rank);
    destinations[rank] = instance(output, microbatch, rank);
  }
  if (move.kind == MoveKind::kSlice)
    return slice(partition_.graph.value(local(input).value).type, move, sources, destinations);
  const auto& transfers =
      round == EmitRound::kFirst ? step_transfer_[index] : recompute_transfers_[index];
  for (const int rank : *active_) {
    const std::uint32_t handle =
        emitter(rank).start(transfers[rank], microbatch, sources[rank], destinations[rank]);
    // On a spanning mesh devices run their parts at different times and wait where they need the
    // result.
    if (options_.lowering == Lowering::kSafe && !spans()) emitter(rank).wait(handle);
  }
}

Op MeshCompiler::op_of(const ComputeStep& step, int rank) const {
  const Node& node = partition_.graph.node(step.node);
  const FactorSignature signature = factor_signature(partition_.graph, node);
  if (signature.sliced_factor < 0) return node.op;
  const auto range = [&](const std::vector<LocalId>& locals,
                         const std::vector<std::vector<int>>& factors) -> std::optional<Interval> {
    for (std::size_t t = 0; t < locals.size(); ++t) {
      const auto at = std::ranges::find(factors[t], signature.sliced_factor);
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

void MeshCompiler::emit_compute(const ComputeStep& step, int microbatch, EmitRound round) {
  const auto gradient = gradients_of_.find(step.outputs.front());
  const bool direct = gradient != gradients_of_.end() && sums_[gradient->second.front()].direct;
  for (const int rank : *active_) {
    const std::size_t r = rank;
    const Coordinate coordinate = mesh_.coordinate(rank);
    const bool applies_once = std::all_of(step.once_axes.begin(), step.once_axes.end(),
                                          [&](int axis) { return coordinate[axis] == 0; });
    std::vector<std::uint32_t> inputs, outputs;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const bool once =
          std::find(step.single_device_inputs.begin(), step.single_device_inputs.end(),
                    static_cast<int>(i)) != step.single_device_inputs.end();
      if (once && !applies_once) continue;
      inputs.push_back(instance(step.inputs[i], microbatch, rank));
    }
    for (const LocalId output : step.outputs) {
      if (direct) {
        outputs.push_back(sums_[gradients_of_.at(output).front()].buffers[r]);
      } else if (partition_.loss_mesh == mesh_id_ && output == partition_.loss_local) {
        const std::uint32_t loss = emitter(rank).add_persistent_buffer(
            losses_[r], static_cast<std::uint64_t>(microbatch) * 4, {DType::kF32, {}});
        instances_[r][{output, microbatch}] = loss;
        outputs.push_back(loss);
      } else if (round == EmitRound::kRecompute && instances_[r].contains({output, microbatch})) {
        // The first round's buffer still exists and may be in flight, so compute into another.
        outputs.push_back(emitter(rank).add_arena_buffer(local_type(output, rank)));
      } else {
        outputs.push_back(instance(output, microbatch, rank));
      }
    }
    const bool accumulate = direct && sums_[gradient->second.front()].started[r];
    emitter(rank).run(op_of(step, rank), std::move(inputs), std::move(outputs), accumulate);
    if (!direct) continue;
    for (const LocalId output : step.outputs)
      sums_[gradients_of_.at(output).front()].started[r] = true;
  }
}

void MeshCompiler::add_gradient(LocalId id, int microbatch) {
  const auto found = gradients_of_.find(id);
  if (found == gradients_of_.end()) return;
  for (const std::size_t index : found->second) {
    GradientSum& sum = sums_[index];
    if (sum.direct) continue;
    for (const int rank : *active_) {
      emitter(rank).accumulate(instance(id, microbatch, rank), sum.buffers[rank],
                               !sum.started[rank]);
      sum.started[rank] = true;
    }
  }
}

void MeshCompiler::make_deferred_scores() {
  if (!spans()) return;
  const std::vector<std::size_t> rest =
      deferred_score_steps(part_, partition_.vocabulary->output, schedule_.vocabulary_barriers);
  deferred_scores_.insert(rest.begin(), rest.end());
}

}  // namespace weft::mesh
