#include "mesh/program/internal/action_emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/ops/fusion.h"
#include "mesh/program/step_order.h"

namespace weft::mesh {
namespace {

/// Returns the op of a step for one rank. Ops that depend on the position of their slice differ by
/// rank.
Op op_at(const MeshView& mesh, const ComputeStep& step, int rank) {
  const Graph& graph = mesh.partition().graph;
  const Node& node = graph.node(step.node);
  const FactorSignature signature = factor_signature(graph, node);
  if (signature.sliced_factor < 0) return node.op;
  const auto range = [&](const std::vector<LocalId>& locals,
                         const std::vector<std::vector<int>>& factors) -> std::optional<Interval> {
    for (std::size_t t = 0; t < locals.size(); ++t) {
      const auto at = std::ranges::find(factors[t], signature.sliced_factor);
      if (at == factors[t].end()) continue;
      return mesh.region(locals[t], rank).intervals()[at - factors[t].begin()];
    }
    return std::nullopt;
  };
  std::optional<Interval> slice = range(step.inputs, signature.inputs);
  if (!slice) slice = range(step.outputs, signature.outputs);
  WEFT_CHECK(slice.has_value(), "no tensor of {} has its located factor", to_string(node.op));
  return op_of_slice(node.op, slice->begin, slice->size());
}

}  // namespace

ActionEmitter::ActionEmitter(MeshView mesh, const MeshEmitters& emitters, const Schedule& schedule,
                             const ActionSteps& steps, const ParameterCopies& copies,
                             ActionLists& lists, MeshBuffers& buffers, GradientSums& sums,
                             GradientReduction& reduction, GradientTerms& terms, MeshEdges& edges,
                             const CompileOptions& options)
    : mesh_(mesh),
      emitters_(emitters),
      schedule_(schedule),
      steps_(steps),
      copies_(copies),
      lists_(lists),
      buffers_(buffers),
      sums_(sums),
      reduction_(reduction),
      terms_(terms),
      edges_(edges),
      options_(options) {
  add_move_transfers();
  if (mesh.partition().loss_mesh == mesh.id()) add_losses();
}

void ActionEmitter::add_move_transfers() {
  const auto add = [&](const Step& step, const char* suffix) -> std::vector<std::uint32_t> {
    const auto* move = std::get_if<MoveStep>(&step.what);
    if (move == nullptr || move->move.kind == MoveKind::kSlice) return {};
    const Value& value = mesh_.value(move->input);
    return emitters_.add_move(
        fmt::format("{} {}{}", to_string(move->move.kind), value.name, suffix), value.type,
        move->move);
  };
  const std::vector<Step>& steps = mesh_.part().steps;
  recompute_transfers_.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    move_transfers_.push_back(add(steps[i], ""));
    if (steps_.is_recomputed(i)) recompute_transfers_[i] = add(steps[i], " again");
  }
}

void ActionEmitter::add_losses() {
  const TensorType type{DType::kF32, {schedule_.microbatches}};
  const Spec& spec = mesh_.local(mesh_.partition().loss_local).spec;
  for (const int rank : emitters_.all_ranks()) {
    Emitter& emitter = emitters_[rank];
    losses_.push_back(emitter.persistent(PersistentBlock::kLosses + options_.name, type.bytes()));
    const std::uint32_t whole = emitter.add_persistent_buffer(losses_.back(), 0, type);
    if (is_first_replica(spec, mesh_.mesh(), rank)) emitter.set_losses(whole);
  }
}

std::optional<StageId> ActionEmitter::stage_here(const Action& action) const {
  const Partition& partition = mesh_.partition();
  const std::optional<StageId> stage = stage_of(partition, action);
  return stage && partition.mesh_of_stage[*stage] == mesh_.id() ? stage : std::nullopt;
}

void ActionEmitter::emit(int actor, std::span<const Action> members, const Hooks& hooks) {
  if (!stage_here(members.front())) return;
  begin(members);
  std::vector<ActionScope> scopes;
  for (const Action& action : members)
    scopes.push_back({action.microbatch, emitters_.ranks_of(actor)});
  const std::vector<ActionStep>& steps = lists_.of(members).steps;
  if (members.size() > 1) await_received(steps, scopes);
  double all = 0, done = 0;
  if (hooks.between)
    for (const ActionStep& one : steps) all += nominal_seconds_of(one);
  for (const ActionStep& one : steps) {
    hooks.enter(one.member);
    if (one.awaited >= 0) {
      const ActionStep& awaited = steps[one.awaited];
      await_results(awaited, scopes[awaited.member]);
    }
    emit_step(one, scopes[one.member]);
    if (!hooks.between) continue;
    done += nominal_seconds_of(one);
    if (!one.is_bound) hooks.between(all > 0 ? done / all : 0);
  }
  start_complete();
  for (std::size_t member = 0; member < members.size(); ++member) {
    const Action& action = members[member];
    // An action beside its forward uses the forward's values, and so may a later W.
    const auto follows = [&](const Action& other) {
      return other.stage == action.stage && other.microbatch == action.microbatch &&
             other.kind != action.kind;
    };
    if (!runs_pass(action.kind, Pass::kForward) || std::ranges::any_of(members, follows)) continue;
    for (const LocalId id : steps_.dropped(*stage_here(members[member])))
      for (const int rank : scopes[member].ranks)
        buffers_.drop_instance(id, scopes[member].microbatch, rank);
  }
}

void ActionEmitter::begin(std::span<const Action> members) {
  shared_copies_.clear();
  shares_copies_ = members.size() > 1;
  if (mesh_.spans()) return;
  sums_.begin(members);
  for (const Action& action : members) {
    if (action.kind == ActionKind::kReduceGrad) reduction_.start(*stage_here(action));
    if (action.microbatch + 1 == schedule_.microbatches && !runs_pass(action.kind, Pass::kForward))
      terms_.start_receipts();
  }
}

void ActionEmitter::await_received(const std::vector<ActionStep>& steps,
                                   const std::vector<ActionScope>& scopes) {
  for (const ActionStep& one : steps) {
    const ActionScope& scope = scopes[one.member];
    for (const LocalId input : inputs_of(mesh_.part().steps[one.step])) {
      if (mesh_.local(input).origin != LocalOrigin::kReceived) continue;
      for (const int rank : scope.ranks)
        if (buffers_.has_instance(input, scope.microbatch, rank))
          emitters_[rank].await_buffer(buffers_.instance(input, scope.microbatch, rank));
    }
  }
}

void ActionEmitter::await_results(const ActionStep& one, const ActionScope& scope) {
  for (const LocalId output : outputs_of(mesh_.part().steps[one.step]))
    for (const int rank : scope.ranks)
      emitters_[rank].await_buffer(buffers_.instance(output, scope.microbatch, rank));
}

bool ActionEmitter::share_copy(LocalId copy, const ActionScope& scope) {
  const auto made = shared_copies_.find(copies_.first_equal(copy));
  if (made == shared_copies_.end()) return false;
  for (const int rank : scope.ranks)
    buffers_.set_instance(copy, scope.microbatch, rank, made->second[rank]);
  return true;
}

void ActionEmitter::start_complete() {
  reduction_.start_complete();
  if (!mesh_.spans()) terms_.send_complete();
}

double ActionEmitter::nominal_seconds_of(const ActionStep& one) const {
  const auto* compute = std::get_if<ComputeStep>(&mesh_.part().steps[one.step].what);
  if (compute == nullptr) return 0;
  const Graph& graph = mesh_.partition().graph;
  return nominal_seconds(graph, graph.node(compute->node));
}

void ActionEmitter::emit_deferred_scores(int actor, int microbatch) {
  const ActionScope scope{microbatch, emitters_.ranks_of(actor)};
  for (const ActionStep& one : steps_.deferred()) emit_step(one, scope);
}

void ActionEmitter::emit_step(const ActionStep& one, const ActionScope& scope) {
  const Step& step = mesh_.part().steps[one.step];
  if (one.part == ActionStep::Part::kSend) {
    for (const LocalId output : outputs_of(step))
      edges_.send(output, scope.microbatch, scope.ranks);
    return;
  }
  if (const auto* compute = std::get_if<ComputeStep>(&step.what)) {
    if (!can_end_fusion(mesh_.partition().graph.node(compute->node).op.kind)) start_complete();
    emit_compute(*compute, one.round, scope);
  } else {
    emit_move(one.step, one.round, scope);
  }
  // The first round has sent the output, and a forward computes no gradients.
  if (one.round == Round::kRecompute) return;
  for (const LocalId output : outputs_of(step)) {
    add_gradient(output, scope);
    if (one.part == ActionStep::Part::kWhole) edges_.send(output, scope.microbatch, scope.ranks);
  }
}

void ActionEmitter::emit_move(std::size_t index, Round round, const ActionScope& scope) {
  const auto& [input, output, move] = std::get<MoveStep>(mesh_.part().steps[index].what);
  if (mesh_.local(output).once_per_step &&
      buffers_.has_instance(output, scope.microbatch, scope.ranks.front()))
    return;
  const bool is_copy = shares_copies_ && copies_.has(output);
  if (is_copy && share_copy(output, scope)) return;
  std::vector<std::uint32_t> sources(emitters_.size()), destinations(emitters_.size());
  for (const int rank : scope.ranks) {
    sources[rank] = buffers_.instance(input, scope.microbatch, rank);
    destinations[rank] = buffers_.instance(output, scope.microbatch, rank);
  }
  if (is_copy) shared_copies_[copies_.first_equal(output)] = destinations;
  if (move.kind == MoveKind::kSlice)
    return emitters_.slice(scope.ranks, mesh_.value(input).type, move, sources, destinations);
  const auto& transfers =
      round == Round::kFirst ? move_transfers_[index] : recompute_transfers_[index];
  for (const int rank : scope.ranks) {
    Emitter& emitter = emitters_[rank];
    const std::uint32_t handle =
        emitter.start(transfers[rank], scope.microbatch, sources[rank], destinations[rank]);
    // On a spanning mesh devices run their parts at different times and wait where they need the
    // result.
    if (options_.lowering == Lowering::kSafe && !mesh_.spans()) emitter.wait(handle);
  }
}

void ActionEmitter::emit_compute(const ComputeStep& step, Round round, const ActionScope& scope) {
  const bool direct = sums_.is_direct(step.outputs.front());
  for (const int rank : scope.ranks) {
    std::vector<std::uint32_t> inputs = inputs_of_op(step, scope.microbatch, rank), outputs;
    bool accumulate = false;
    for (const LocalId output : step.outputs) {
      if (direct) {
        const GradientSums::Accumulator accumulator = sums_.write_directly(
            output, rank, [&] { return buffers_.instance(output, scope.microbatch, rank); });
        outputs.push_back(accumulator.buffer);
        accumulate = accumulator.holds_sum;
      } else {
        outputs.push_back(output_buffer(output, round, scope.microbatch, rank));
      }
    }
    emitters_[rank].run(op_at(mesh_, step, rank), std::move(inputs), std::move(outputs),
                        accumulate);
  }
}

std::vector<std::uint32_t> ActionEmitter::inputs_of_op(const ComputeStep& step, int microbatch,
                                                       int rank) {
  const Coordinate coordinate = mesh_.mesh().coordinate(rank);
  const bool applies_once =
      std::ranges::all_of(step.once_axes, [&](int axis) { return coordinate[axis] == 0; });
  std::vector<std::uint32_t> inputs;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const bool once = std::ranges::find(step.single_device_inputs, static_cast<int>(i)) !=
                      step.single_device_inputs.end();
    if (applies_once || !once)
      inputs.push_back(buffers_.instance(step.inputs[i], microbatch, rank));
  }
  return inputs;
}

std::uint32_t ActionEmitter::output_buffer(LocalId output, Round round, int microbatch, int rank) {
  const Partition& partition = mesh_.partition();
  if (partition.loss_mesh == mesh_.id() && output == partition.loss_local) {
    const std::uint32_t loss = emitters_[rank].add_persistent_buffer(
        losses_[rank], static_cast<std::uint64_t>(microbatch) * sizeof(float), {DType::kF32, {}});
    buffers_.set_instance(output, microbatch, rank, loss);
    return loss;
  }
  // The first round's buffer may exist and be in flight, so recompute into another.
  if (round == Round::kRecompute && buffers_.has_instance(output, microbatch, rank))
    return emitters_[rank].add_arena_buffer(mesh_.local_type(output, rank));
  return buffers_.instance(output, microbatch, rank);
}

void ActionEmitter::add_gradient(LocalId id, const ActionScope& scope) {
  if (sums_.needs_add(id))
    for (const int rank : scope.ranks)
      sums_.add(id, rank, buffers_.instance(id, scope.microbatch, rank));
  if (!mesh_.spans()) reduction_.computed(id, scope.microbatch);
}

}  // namespace weft::mesh
