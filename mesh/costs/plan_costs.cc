#include "mesh/costs/plan_costs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "mesh/costs/internal/stage_memory.h"
#include "mesh/costs/internal/stage_timeline.h"
#include "mesh/program/recomputation.h"
#include "mesh/program/step_order.h"
#include "transfer/flow/simulate.h"

namespace weft::mesh {
namespace {

/// Returns `part / whole`, at most 1, or `otherwise` if `whole` is 0.
double share(double part, double whole, double otherwise) {
  return whole > 0 ? std::min(part / whole, 1.0) : otherwise;
}

/// Builder of the costs of one plan. Used once.
class PlanCosts {
 public:
  PlanCosts(const TrainingPlan& plan, const OpTimeModel& seconds)
      : plan_(plan), partition_(plan.partition) {
    for (const MeshId mesh : partition_.meshes.ids())
      durations_.push_back(step_durations(plan, mesh, seconds));
    for (StageId stage(0); stage.value() < partition_.num_schedule_stages();
         stage = StageId(stage.value() + 1)) {
      forward_.push_back(stage_timeline(plan, stage, true, durations_[mesh_of(stage)]));
      backward_.push_back(stage_timeline(plan, stage, false, durations_[mesh_of(stage)]));
    }
  }

  ScheduleCosts run() {
    for (const StageId stage : forward_.ids()) add_stage(stage);
    if (partition_.vocabulary) add_vocabulary();
    add_crossings();
    add_compounds();
    add_handovers();
    add_interfaces();
    add_exchange();
    return std::move(costs_);
  }

 private:
  MeshId mesh_of(StageId stage) const { return partition_.mesh_of_stage[stage]; }

  void add_stage(StageId stage) {
    const StageMemory memory = stage_memory(partition_, stage);
    StageCosts costs;
    const StageTimeline &forward = forward_[stage], &backward = backward_[stage];
    const double gradients = edge_seconds(stage, false);
    costs.forward = with_edges(forward.work, forward.moving, edge_seconds(stage, true));
    costs.input_grad = with_edges(backward.work, backward.moving, gradients);
    costs.weight_grad = backward.weights;
    const double both = with_edges(backward.work + backward.weights - backward.hidden,
                                   backward.moving_in_both, gradients);
    costs.hidden = std::clamp(costs.input_grad + costs.weight_grad - both, 0.0, costs.weight_grad);
    for (const std::size_t step :
         recomputed_steps(partition_.per_mesh[mesh_of(stage)], stage).steps) {
      if (!runs_once_per_step(partition_.per_mesh[mesh_of(stage)], step))
        costs.recompute += durations_[mesh_of(stage)][step].total();
    }
    costs.recomputes = plan_.layout.stages[stage.value()].recompute;
    costs.activations = memory.activations;
    costs.for_weight_grad = memory.for_weight_grad;
    costs.retained_for_recompute = memory.retained_for_recompute;
    add_reduction(stage, costs);
    costs_.stages.push_back(costs);
  }

  /// Returns the time of an action whose collectives use the links for `moving` seconds, if tensors
  /// between meshes use them for `edges` seconds too: both must fit. Without collectives, transfers
  /// count apart.
  static double with_edges(double time, double moving, double edges) {
    return moving > 0 ? std::max(time, moving + edges) : time;
  }
  /// Returns the seconds per microbatch in which tensors between meshes use the links of the
  /// stage's hosts, beside the collectives of its mesh: activations if `forward`, else gradients.
  double edge_seconds(StageId stage, bool forward) const {
    double in = 0, out = 0;
    for (std::size_t e = 0; e < partition_.edges.size(); ++e) {
      const MeshEdge& edge = partition_.edges[e];
      const bool is_other = (edge.pass == Pass::kForward) != forward ||
                            partition_.spans(edge.from_mesh) || partition_.spans(edge.to_mesh);
      if (is_other) continue;
      const double seconds = plan_.train.edges[e].plan.predicted_seconds;
      if (edge.to_stage == stage) in += seconds;
      if (edge.from_stage == stage) out += seconds;
    }
    return std::max(in, out);
  }

  /// Adds each actor's passes to the stage under which its action list names them.
  void add_vocabulary() {
    const MeshPartition& part = partition_.per_mesh[*partition_.spanning_mesh()];
    const std::vector<StepDuration>& durations = durations_[*partition_.spanning_mesh()];
    const int barriers = plan_.schedule.vocabulary_barriers;
    const auto time_of = [&](std::optional<StageId> stage, ActionKind kind) {
      double time = 0;
      if (!stage) return time;
      for (const std::size_t step : steps_of(part, *stage, kind, barriers))
        if (std::holds_alternative<ComputeStep>(part.steps[step].what))
          time += durations[step].total();
      return time;
    };
    for (std::size_t e = 0; e < partition_.edges.size(); ++e) {
      const MeshEdge& edge = partition_.edges[e];
      if (partition_.spans(edge.from_mesh) || partition_.spans(edge.to_mesh))
        costs_.vocabulary_tensor =
            std::max(costs_.vocabulary_tensor, plan_.train.edges[e].plan.predicted_seconds);
    }
    for (std::size_t i = 0; i < part.steps.size(); ++i) {
      const Step& step = part.steps[i];
      if (step.stage == partition_.vocabulary->output && step.pass == Pass::kForward &&
          std::holds_alternative<MoveStep>(step.what))
        costs_.vocabulary_exchange +=
            durations[i].total() / (runs_once_per_step(part, i) ? plan_.schedule.microbatches : 1);
    }
    const VocabularyMemory memory = vocabulary_memory(partition_, barriers);
    for (const std::vector<Action>& actions : plan_.schedule.actors) {
      const auto names = std::ranges::find(actions, ActionKind::kVocabularyScores, &Action::kind);
      if (names == actions.end()) continue;
      StageCosts& costs = costs_.stages[names->stage];
      const auto& [output, input] = *partition_.vocabulary;
      costs.vocabulary_scores = time_of(output, ActionKind::kVocabularyScores);
      costs.vocabulary_grads = time_of(output, ActionKind::kVocabularyGrads);
      costs.input_forward = time_of(input, ActionKind::kInputForward);
      costs.input_backward = time_of(input, ActionKind::kInputBackward);
      costs.score_memory = memory.scores;
      costs.partial_held = memory.partial;
      costs.embedded_held = memory.embedded;
    }
  }

  /// Adds the seconds in which the stage's gradients are reduced that are partial over axes of its
  /// mesh.
  void add_reduction(StageId stage, StageCosts& costs) const {
    const MeshPartition& part = partition_.per_mesh[mesh_of(stage)];
    std::map<std::vector<int>, double> bytes;
    std::map<int, double> layers;  // Bytes by block: the backward reduces that of the first last.
    for (const LocalParameter& parameter : part.parameters) {
      for (const GradientTerm& term : parameter.terms) {
        const LocalValue& gradient = part.locals[term.gradient];
        const auto producer = partition_.graph.value(gradient.value).producer;
        if (!producer || partition_.stage_of_node[*producer] != stage ||
            !gradient.spec.is_partial())
          continue;
        double times = 1;
        if (part.locals[parameter.value].spec.dims != gradient.spec.dims) {
          if (part.gather == GatherFrequency::kUse)
            costs.reduced_microbatches = reductions_of(stage);
          // A reduce-scatter takes half of the time of an all-reduce.
          times = 0.5 * costs.reduced_microbatches;
        }
        const double moved = times * local_bytes(partition_, mesh_of(stage), term.gradient);
        bytes[gradient.spec.partial] += moved;
        layers[partition_.graph.node(*producer).block] += moved;
      }
    }
    for (const auto& [axes, of_axes] : bytes) {
      const TensorType type{DType::kF32,
                            {static_cast<std::int64_t>(of_axes / size_of(DType::kF32))}};
      costs.reduce_grad += all_reduce_seconds(plan_, mesh_of(stage), axes, type);
    }
    if (layers.empty()) return;
    costs.listed_late_reduction = listed_late_reduction(plan_, stage, durations_[mesh_of(stage)]);
    double all = 0;
    for (const auto& [layer, of_layer] : layers) all += of_layer;
    costs.reduced_layers = std::ssize(layers);
    costs.last_layer_share = layers.begin()->second / all;
  }

  /// Returns the number of compounds that add to the stage's weight gradients.
  int reductions_of(StageId stage) const {
    int count = 0;
    const std::vector<Action>& actions =
        plan_.schedule.actors[plan_.schedule.actor_of_stage[stage.value()]];
    for (std::size_t begin = 0; begin < actions.size();) {
      const std::size_t end = end_of_compound(actions, begin);
      const auto adds = [&](const Action& action) {
        return action.stage == stage.value() && gives_weight_grad(action.kind);
      };
      if (std::any_of(actions.begin() + static_cast<std::ptrdiff_t>(begin),
                      actions.begin() + static_cast<std::ptrdiff_t>(end), adds))
        ++count;
      begin = end;
    }
    return count;
  }

  /// Adds an edge per tensor between meshes. A tensor and a gradient between the same stages share
  /// an edge if they have equal size.
  void add_crossings() {
    // Key: (earlier stage, later stage).
    std::map<std::pair<StageId, StageId>, std::vector<std::size_t>> forth, back;
    for (std::size_t e = 0; e < partition_.edges.size(); ++e) {
      const MeshEdge& edge = partition_.edges[e];
      if (partition_.spans(edge.from_mesh) || partition_.spans(edge.to_mesh)) continue;
      const auto ends = std::minmax(edge.from_stage, edge.to_stage);
      (edge.pass == Pass::kForward ? forth : back)[ends].push_back(e);
    }
    for (const auto& [ends, tensors] : forth) {
      std::vector<std::size_t>& gradients = back[ends];
      for (const std::size_t tensor : tensors) {
        EdgeCosts costs{{ends.first.value(), ends.second.value(), bytes_of(tensor)}};
        costs.backward_timing.exists = false;
        edge_of_[tensor] = std::ssize(costs_.edges);
        add_direction(costs, tensor);
        const auto twin = std::ranges::find_if(
            gradients, [&](std::size_t e) { return bytes_of(e) == costs.edge.bytes; });
        if (twin != gradients.end()) {
          edge_of_[*twin] = std::ssize(costs_.edges);
          add_direction(costs, *twin);
          gradients.erase(twin);
        }
        costs_.edges.push_back(costs);
      }
    }
    for (const auto& [ends, gradients] : back) {
      for (const std::size_t gradient : gradients) {
        EdgeCosts costs{{ends.first.value(), ends.second.value(), bytes_of(gradient)}};
        costs.forward_timing.exists = false;
        edge_of_[gradient] = std::ssize(costs_.edges);
        add_direction(costs, gradient);
        costs_.edges.push_back(costs);
      }
    }
  }

  void add_compounds() {
    for (const MeshId mesh : partition_.meshes.ids()) {
      for (const auto& [members, found] : listed_compounds(plan_, mesh, durations_[mesh])) {
        CompoundCosts& compound = costs_.compounds[members];
        double edges = 0;
        for (const CompoundMember& member : members)
          if (member.kind == ActionKind::kForward || gives_input_grad(member.kind))
            edges += edge_seconds(StageId(member.stage), member.kind == ActionKind::kForward);
        compound.time = with_edges(found.costs.time, found.moving, edges);
        for (const auto& [sent, part] : found.costs.made_at) {
          const auto edge = edge_of_.find(sent.first);
          if (edge != edge_of_.end()) compound.made_at[{edge->second, sent.second}] = part;
        }
      }
    }
  }

  std::uint64_t bytes_of(std::size_t edge) const {
    const MeshEdge& one = partition_.edges[edge];
    return static_cast<std::uint64_t>(
        std::max(local_bytes(partition_, one.from_mesh, one.source),
                 local_bytes(partition_, one.to_mesh, one.destination)));
  }

  void add_direction(EdgeCosts& costs, std::size_t index) const {
    const MeshEdge& edge = partition_.edges[index];
    const bool forward = edge.pass == Pass::kForward;
    (forward ? costs.forward : costs.backward) = plan_.train.edges[index].plan.predicted_seconds;
    const auto& lines = forward ? forward_ : backward_;
    const StageTimeline& sender = lines[edge.from_stage];
    const StageTimeline& receiver = lines[edge.to_stage];
    TensorTiming timing;
    timing.send_share = share_of_places(plan_.train.edges[index].plan);
    timing.latency = plan_.network.hop_seconds;
    if (const auto sent = sender.sent.find(index); sent != sender.sent.end()) {
      timing.produced_at = share(sent->second.work, sender.work, 1);
      timing.produced_at_weights = share(sent->second.weights, sender.weights, 1);
      timing.produced_step = sent->second.step;
    }
    if (const auto use = receiver.first_use.find(edge.destination);
        use != receiver.first_use.end()) {
      timing.needed_at = share(use->second.work, receiver.work, 0);
      timing.needed_at_weights = share(use->second.weights, receiver.weights, 0);
      timing.for_weights_only = !receiver.used_by_work.at(edge.destination);
      timing.needed_step = use->second.step;
    }
    (forward ? costs.forward_timing : costs.backward_timing) = timing;
  }

  /// Returns the part of a device's allowed concurrent streams to other hosts that this transfer
  /// takes, on the device where that part is largest. At most 1.
  double share_of_places(const transfer::ReshardPlan& plan) const {
    std::map<transfer::HostId, std::size_t> devices;
    for (const transfer::HostId host : plan_.topology.host_of_device) ++devices[host];
    std::map<transfer::DeviceId, std::size_t> streams;
    for (const transfer::Flow& flow : plan.flows) {
      const bool leaves = std::ranges::any_of(flow.edges, [&](const transfer::FlowEdge& edge) {
        return edge.parent == flow.root &&
               plan_.topology.host_of(edge.parent) != plan_.topology.host_of(edge.child);
      });
      if (leaves) ++streams[flow.root];
    }
    double most = streams.empty() ? 1 : 0;
    for (const auto& [device, count] : streams) {
      const std::size_t said = plan.egress_slots.empty() ? 0 : plan.egress_slots.at(device.value());
      const std::size_t allowed =
          said != 0
              ? said
              : transfer::EgressLimit().limit_per_device(devices[plan_.topology.host_of(device)]);
      most = std::max(most, count / static_cast<double>(allowed));
    }
    return std::min(most, 1.0);
  }

  /// Adds an edge without cost for each value between stages of one mesh, which is not sent.
  void add_handovers() {
    for (const StageEdge& edge : stage_edges(partition_)) {
      if (mesh_of(StageId(edge.from)) == mesh_of(StageId(edge.to))) costs_.edges.push_back({edge});
    }
  }

  /// Gives meshes on the same hosts the same network interface.
  void add_interfaces() {
    costs_.sharing = InterfaceSharing::kFair;
    std::map<std::set<transfer::HostId>, int> interfaces;
    std::map<MeshId, int> of_mesh;
    for (const StageId stage : forward_.ids()) {
      const MeshId mesh = mesh_of(stage);
      std::set<transfer::HostId> hosts;
      for (const transfer::DeviceId device : partition_.meshes[mesh].devices())
        hosts.insert(plan_.topology.host_of(device));
      const int next = interfaces.size();
      if (of_mesh.contains(mesh)) continue;
      of_mesh[mesh] = interfaces.try_emplace(hosts, next).first->second;
      if (!plan_.layout.own_schedule) costs_.nic_of_actor.push_back(of_mesh[mesh]);
    }
    if (!plan_.layout.own_schedule) return;
    const Schedule& own = *plan_.layout.own_schedule;
    costs_.nic_of_actor.assign(own.actors.size(), 0);
    for (const StageId stage : forward_.ids())
      costs_.nic_of_actor[own.actor_of_stage[stage.value()]] = of_mesh[mesh_of(stage)];
  }

  void add_exchange() {
    IndexedVector<MeshId, double> terms(partition_.meshes.size(), 0);
    for (const TermTransfer& term : plan_.train.terms) {
      terms[term.from_mesh] += term.plan.predicted_seconds;
    }
    costs_.exchange =
        *std::ranges::max_element(terms) +
        transfer::simulate(plan_.train.norms.flows, plan_.topology, plan_.network).seconds;
  }

  const TrainingPlan& plan_;
  const Partition& partition_;
  IndexedVector<MeshId, std::vector<StepDuration>> durations_;  ///< Durations by mesh and step.
  IndexedVector<StageId, StageTimeline> forward_, backward_;
  std::map<std::size_t, int> edge_of_;  ///< Edges of the costs, by edge of the partition.
  ScheduleCosts costs_;
};

}  // namespace

ScheduleCosts plan_costs(const TrainingPlan& plan, const OpTimeModel& seconds) {
  return PlanCosts(plan, seconds).run();
}

SimulationOptions simulation_options_of(const TrainingPlan& plan) {
  SimulationOptions options;
  options.credits = plan.layout.credits;
  options.blocking = plan.layout.lowering == Lowering::kSafe;
  return options;
}

void scale_to_measured(ScheduleCosts& costs, const TrainingPlan& plan,
                       std::span<const MeasuredStageTimes> measured) {
  require_measured(plan, measured);
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    StageCosts& one = costs.stages[stage];
    one.recompute = share(one.recompute, one.forward, 1) * measured[stage].forward;
    one.forward = measured[stage].forward;
    one.input_grad =
        std::max(measured[stage].input_grad - (one.recomputes ? one.recompute : 0), 0.0);
    one.weight_grad = measured[stage].weight_grad;
    one.hidden = 0;  // A measured B is split into I and W.
    one.listed_late_reduction.reset();
    if (!plan.partition.vocabulary || one.vocabulary_scores <= 0) continue;
    const auto& [output, input] = *plan.partition.vocabulary;
    one.vocabulary_scores = measured[output.value()].forward;
    one.vocabulary_grads = measured[output.value()].weight_grad;
    if (!input) continue;
    one.input_forward = measured[input->value()].forward;
    one.input_backward = measured[input->value()].weight_grad;
  }
  // The measured times of members are those within their compounds.
  for (auto& [members, compound] : costs.compounds) {
    compound.time = 0;
    for (const CompoundMember& member : members)
      compound.time += duration(costs, {member.stage, member.kind, 0}) - costs.dispatch_time;
  }
}

}  // namespace weft::mesh
