#include "mesh/program/internal/action_lists.h"

#include <algorithm>
#include <utility>

#include "core/ops/fusion.h"
#include "mesh/program/lanes.h"

namespace weft::mesh {
namespace {

using Part = ActionStep::Part;
using Round = ActionStep::Round;

/// Sources of a mesh's lists.
struct ListInputs {
  const MeshView& mesh;
  const GradientSums& sums;
  const GradientReduction& reduction;
  const std::set<LocalId>& sent;
  const IndexedVector<LocalId, std::vector<std::size_t>>& readers;
};

/// Builder of the graph of one action, from its steps in the order of the model's graph. Used once.
class ActionGraph {
 public:
  ActionGraph(const ListInputs& in, const ActionListKey& key, const std::vector<ActionStep>& steps,
              StepSeconds& seconds)
      : in_(in), key_(key), steps_(steps), seconds_(seconds) {
    for (const ActionStep& one : steps) here_.insert(one.step);
  }

  /// `reduced`: buckets whose reductions start during the action.
  ActionList build(const std::vector<std::size_t>& reduced) {
    const std::vector<std::vector<std::size_t>> groups = fused_groups();
    for (const std::vector<std::size_t>& group : groups) add(group);
    for (const std::size_t bucket : reduced) add_reduction(bucket);
    graph_.max_buffer_bytes = static_cast<double>(in_.reduction.max_buffer_bytes());
    ActionList result;
    result.list = list_steps(graph_);
    for (const std::size_t step : result.list.order)
      result.steps.insert(result.steps.end(), members_[step].begin(), members_[step].end());
    result.graph = std::move(graph_);
    result.members = std::move(members_);
    return result;
  }

 private:
  const Step& step(std::size_t index) const { return in_.mesh.part().steps[index]; }
  bool is_move(std::size_t at) const {
    const auto* move = std::get_if<MoveStep>(&step(steps_[at].step).what);
    return move != nullptr && move->move.kind != MoveKind::kSlice;
  }
  /// Returns whether a value is used beside the steps of this action.
  bool is_used_elsewhere(LocalId id) const {
    return in_.sent.contains(id) || !in_.sums.sums_of(id).empty() ||
           in_.mesh.partition().loss_local == id ||
           std::ranges::any_of(in_.readers[id],
                               [&](std::size_t reader) { return !here_.contains(reader); });
  }
  /// Returns whether the memory of a value is needed after the action.
  bool is_kept(LocalId id) const {
    const LocalValue& local = in_.mesh.local(id);
    if (local.origin == LocalOrigin::kParameter || local.once_per_step || in_.sent.contains(id))
      return true;
    const auto is_later = [&](std::size_t reader) {
      if (here_.contains(reader)) return false;
      const Step& other = step(reader);
      if (other.stage != key_.stage) return true;
      return !runs_pass(key_.kind, other.pass) &&
             (key_.kind == ActionKind::kForward || key_.kind == ActionKind::kRecompute ||
              other.pass == Pass::kWeightGrad);
    };
    return std::ranges::any_of(in_.readers[id], is_later);
  }
  /// Returns the bytes of a value that the arena holds.
  double bytes_of(LocalId id) const {
    const LocalValue& local = in_.mesh.local(id);
    if (local.origin == LocalOrigin::kParameter || local.once_per_step) return 0;
    const auto& sums = in_.sums.sums_of(id);
    const bool is_sum =
        std::ranges::any_of(sums, [&](std::size_t sum) { return in_.sums.sums()[sum].is_kept(); });
    return is_sum ? 0 : static_cast<double>(in_.mesh.local_type(id, 0).bytes());
  }

  /// Returns the steps in groups: ops that one op replaces are together.
  std::vector<std::vector<std::size_t>> fused_groups() const {
    std::vector<ListedOp> list;
    IndexedVector<LocalId, TensorType> types(in_.mesh.part().locals.size(), {});
    for (const ActionStep& one : steps_) {
      ListedOp listed;
      const auto* compute = std::get_if<ComputeStep>(&step(one.step).what);
      if (compute != nullptr) listed.op = &in_.mesh.partition().graph.node(compute->node).op;
      for (const LocalId id : inputs_of(step(one.step))) {
        listed.inputs.push_back(id.value());
        types[id] = in_.mesh.local_type(id, 0);
      }
      for (const LocalId id : outputs_of(step(one.step))) {
        listed.outputs.push_back(id.value());
        types[id] = in_.mesh.local_type(id, 0);
      }
      list.push_back(std::move(listed));
    }
    const ListedTensors tensors{
        [&](std::uint32_t id) -> const TensorType& { return types[LocalId(id)]; },
        [&](std::uint32_t id) { return is_used_elsewhere(LocalId(id)); }};
    std::vector<std::vector<std::size_t>> group_at(list.size());
    std::vector<bool> removed(list.size(), false);
    for (const Fusion& fusion : find_fusions(list, tensors)) {
      group_at[fusion.last] = fusion.removed;
      for (const std::size_t at : fusion.removed) removed[at] = true;
    }
    std::vector<std::vector<std::size_t>> groups;
    for (std::size_t at = 0; at < list.size(); ++at) {
      if (removed[at]) continue;
      std::ranges::sort(group_at[at]);
      groups.push_back(std::move(group_at[at]));
      groups.back().push_back(at);
    }
    return groups;
  }

  /// Adds the steps as one step of the list.
  void add(const std::vector<std::size_t>& group) {
    ListedStep listed;
    std::vector<ActionStep> members;
    std::set<LocalId> made;
    bool sends_later = false;
    for (const std::size_t at : group) {
      ActionStep one = steps_[at];
      const Step& what = step(one.step);
      const auto outputs = outputs_of(what);
      for (const LocalId id : inputs_of(what))
        if (!made.contains(id)) listed.reads.push_back(value_of(id));
      const bool is_known = std::ranges::all_of(
          outputs, [&](LocalId id) { return in_.mesh.local(id).once_per_step; });
      if (!is_known || key_.is_first_microbatch) {
        const StepDuration duration = seconds_.of(what);
        listed.seconds += duration.seconds;
        listed.latency += duration.latency;
      }
      if (is_move(at)) {
        listed.lane = StepLane::kNetwork;
        sends_later = one.round == Round::kFirst && std::ranges::any_of(outputs, [&](LocalId id) {
                        return in_.sent.contains(id);
                      });
        if (sends_later) one.part = Part::kWithoutSend;
      }
      made.insert(outputs.begin(), outputs.end());
      one.is_bound = at != group.back();
      members.push_back(one);
    }
    std::ranges::sort(listed.reads);
    listed.reads.erase(std::unique(listed.reads.begin(), listed.reads.end()), listed.reads.end());
    made_.insert(made.begin(), made.end());
    for (const LocalId id : made) {
      value_of_[id] = graph_.values.size();
      listed.makes.push_back(graph_.values.size());
      graph_.values.push_back({bytes_of(id), is_kept(id)});
    }
    push(std::move(listed), std::move(members));
    if (!sends_later) return;
    const ActionStep& move = steps_[group.front()];
    ListedStep send{StepLane::kNetwork, 0, 0, graph_.steps.back().makes, {}};
    push(std::move(send), {{move.step, move.round, Part::kSend}});
  }
  void push(ListedStep listed, std::vector<ActionStep> members) {
    graph_.steps.push_back(std::move(listed));
    members_.push_back(std::move(members));
  }

  void add_reduction(std::size_t index) {
    const GradientBucket& bucket = in_.sums.buckets()[index];
    ListedStep listed{StepLane::kNetwork,
                      0,
                      0,
                      {},
                      {},
                      true,
                      static_cast<double>(in_.reduction.buffer_bytes(index))};
    std::int64_t bytes = 0;
    for (const std::size_t sum : bucket.sums) {
      const LocalId gradient = in_.sums.sums()[sum].term.gradient;
      bytes += static_cast<std::int64_t>(in_.mesh.local_type(gradient, 0).bytes());
      if (made_.contains(gradient)) listed.reads.push_back(value_of_.at(gradient));
    }
    if (listed.reads.empty()) return;
    std::ranges::sort(listed.reads);
    listed.reads.erase(std::unique(listed.reads.begin(), listed.reads.end()), listed.reads.end());
    // `part`: a reduce-scatter takes half of the time of an all-reduce.
    const auto add_sum = [&](std::int64_t of, const std::vector<int>& axes, double part) {
      const auto elements = of / static_cast<std::int64_t>(size_of(DType::kF32));
      const StepDuration duration = seconds_.all_reduce({DType::kF32, {elements}}, axes);
      listed.seconds += part * duration.seconds;
      listed.latency += part * duration.latency;
    };
    const std::vector<int>& scattered = bucket.group.scattered;
    if (scattered.empty()) {
      add_sum(bytes, bucket.group.axes, 1);
    } else {
      std::vector<int> rest;
      for (const int axis : bucket.group.axes)
        if (std::ranges::find(scattered, axis) == scattered.end()) rest.push_back(axis);
      add_sum(bytes, scattered, 0.5);
      if (!rest.empty()) add_sum(bytes / num_parts(scattered, in_.mesh.mesh()), rest, 1);
    }
    push(std::move(listed), {});
  }

  std::size_t value_of(LocalId id) {
    const auto [found, is_new] = value_of_.try_emplace(id, graph_.values.size());
    if (is_new) graph_.values.push_back({bytes_of(id), is_kept(id)});
    return found->second;
  }

  const ListInputs in_;
  const ActionListKey& key_;
  const std::vector<ActionStep>& steps_;
  StepSeconds& seconds_;
  std::set<std::size_t> here_;  ///< Steps that the action runs.
  std::set<LocalId> made_;      ///< Values that it makes.
  std::map<LocalId, std::size_t> value_of_;
  ListedSteps graph_;
  std::vector<std::vector<ActionStep>> members_;
};

}  // namespace

ActionLists::ActionLists(MeshView mesh, const ActionSteps& steps, const GradientSums& sums,
                         const GradientReduction& reduction, std::set<LocalId> sent,
                         std::set<StageId> held, int microbatches,
                         const transfer::Topology& topology, const CompileOptions& options)
    : mesh_(mesh),
      steps_(steps),
      sums_(sums),
      reduction_(reduction),
      sent_(std::move(sent)),
      held_(std::move(held)),
      microbatches_(microbatches),
      orders_(!mesh.spans() && options.lowering == Lowering::kLanes && options.network &&
              options.op_seconds != nullptr),
      readers_(mesh.part().locals.size(), {}) {
  if (orders_)
    seconds_.emplace(mesh.partition(), mesh.id(), topology, *options.network, options.op_seconds);
  const std::vector<Step>& all = mesh.part().steps;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const LocalId input : inputs_of(all[i])) readers_[input].push_back(i);
}

const ActionList& ActionLists::of(StageId stage, ActionKind kind, int microbatch) {
  return of({stage, kind, microbatch == 0, microbatch + 1 == microbatches_});
}

const ActionList& ActionLists::of(const ActionListKey& key) {
  const auto found = lists_.find(key);
  return found != lists_.end() ? found->second : lists_.emplace(key, make(key)).first->second;
}

ActionList ActionLists::make(const ActionListKey& key) {
  ActionList result;
  result.steps = steps_.of(key.stage, key.kind);
  if (!orders_) return result;
  std::vector<std::size_t> reduced;  // Indices of buckets.
  for (std::size_t bucket = 0; bucket < sums_.buckets().size(); ++bucket) {
    const bool is_each = !sums_.sums()[sums_.buckets()[bucket].sums.front()].is_kept();
    if (key.is_last_microbatch ? !held_.contains(key.stage) : is_each) reduced.push_back(bucket);
  }
  return ActionGraph({mesh_, sums_, reduction_, sent_, readers_}, key, result.steps, *seconds_)
      .build(reduced);
}

ActionListMap ActionLists::take() {
  if (!orders_) return {};
  const auto& mesh_of_stage = mesh_.partition().mesh_of_stage;
  for (const StageId stage : mesh_of_stage.ids()) {
    if (mesh_of_stage[stage] != mesh_.id()) continue;
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                  ActionKind::kInputGrad, ActionKind::kWeightGrad})
      of({stage, kind, false, false});
  }
  return std::move(lists_);
}

}  // namespace weft::mesh
