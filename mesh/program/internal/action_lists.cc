#include "mesh/program/internal/action_lists.h"

#include <algorithm>
#include <utility>

#include "core/ops/fusion.h"
#include "mesh/program/lanes.h"

namespace weft::mesh {
namespace {

using Part = ActionStep::Part;
using Round = ActionStep::Round;

/// Seconds that interleaving must save, as a part of what the members take one after the other.
constexpr double kMinCompoundGain = 0.02;

/// Sources of a mesh's lists.
struct ListInputs {
  const MeshView& mesh;
  const ParameterCopies& copies;
  const GradientSums& sums;
  const GradientReduction& reduction;
  const std::set<LocalId>& sent;
  const IndexedVector<LocalId, std::vector<std::size_t>>& readers;
};

/// Builder of the graph of one compound, from the steps of its members in the order of the model's
/// graph. Used once.
class CompoundGraph {
 public:
  CompoundGraph(const ListInputs& in, const ActionListKey& key,
                const std::vector<std::vector<ActionStep>>& steps, StepSeconds& seconds)
      : in_(in), seconds_(seconds) {
    for (std::size_t m = 0; m < key.size(); ++m) {
      members_.push_back({key[m], steps[m], {}});
      for (const ActionStep& one : steps[m]) members_[m].here.insert(one.step);
    }
  }

  /// `reduced`: buckets whose reductions start during the compound.
  void build(const std::vector<std::size_t>& reduced) {
    for (std::size_t m = 0; m < members_.size(); ++m) {
      places_.emplace_back();
      for (const std::vector<std::size_t>& group : fused_groups(members_[m])) add(m, group);
    }
    for (const std::size_t bucket : reduced) add_reduction(bucket);
    graph_.max_buffer_bytes = static_cast<double>(in_.reduction.max_buffer_bytes());
  }
  const ListedSteps& graph() const { return graph_; }
  /// Sets the given order to the one in which the members run one after the other, each by the
  /// list that it has alone.
  void run_one_by_one(const std::vector<const StepList*>& lists, ListOptions& options) const {
    for (std::size_t m = 0; m < lists.size(); ++m) {
      for (const std::size_t step : lists[m]->order)
        if (const auto place = places_[m][step]) options.given.push_back(*place);
      for (const auto& [step, awaited] : lists[m]->awaits)
        if (places_[m][step] && places_[m][awaited])
          options.given_awaits[*places_[m][step]] = *places_[m][awaited];
    }
  }
  ActionList with_list(StepList list) && {
    ActionList result;
    result.list = std::move(list);
    std::vector<std::int32_t> first(steps_of_.size(), -1);  // Index into result.steps.
    for (const std::size_t step : result.list.order) {
      first[step] = static_cast<std::int32_t>(result.steps.size());
      result.steps.insert(result.steps.end(), steps_of_[step].begin(), steps_of_[step].end());
      if (const auto awaited = result.list.awaits.find(step); awaited != result.list.awaits.end())
        result.steps[first[step]].awaited = first[awaited->second];
    }
    result.graph = std::move(graph_);
    result.members = std::move(steps_of_);
    return result;
  }

 private:
  /// Member of the compound.
  struct Member {
    ListedAction action;
    const std::vector<ActionStep>& steps;
    std::set<std::size_t> here;  ///< Steps that it runs.
  };
  using ValueKey = std::pair<int, LocalId>;  ///< Microbatch and value.

  const Step& step(std::size_t index) const { return in_.mesh.part().steps[index]; }
  bool is_move(const ActionStep& one) const {
    const auto* move = std::get_if<MoveStep>(&step(one.step).what);
    return move != nullptr && move->move.kind != MoveKind::kSlice;
  }
  /// Returns whether a value is used beside the steps of this member.
  bool is_used_elsewhere(const Member& member, LocalId id) const {
    return in_.sent.contains(id) || !in_.sums.sums_of(id).empty() ||
           in_.mesh.partition().loss_local == id ||
           std::ranges::any_of(in_.readers[id],
                               [&](std::size_t reader) { return !member.here.contains(reader); });
  }
  /// Returns whether the memory of a microbatch's value is needed after the compound.
  bool is_kept(int microbatch, LocalId id) const {
    const LocalValue& local = in_.mesh.local(id);
    if (local.origin == LocalOrigin::kParameter || local.once_per_step || in_.sent.contains(id))
      return true;
    return std::ranges::any_of(in_.readers[id], [&](std::size_t reader) {
      const Step& other = step(reader);
      return std::ranges::all_of(members_, [&](const Member& member) {
        if (member.action.microbatch != microbatch) return true;
        if (member.here.contains(reader)) return false;
        const ActionKind kind = member.action.kind;
        return other.stage != member.action.stage ||
               (!runs_pass(kind, other.pass) &&
                (kind == ActionKind::kForward || kind == ActionKind::kRecompute ||
                 other.pass == Pass::kWeightGrad));
      });
    });
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

  /// Returns a member's steps in groups: ops that one op replaces are together.
  std::vector<std::vector<std::size_t>> fused_groups(const Member& member) const {
    std::vector<ListedOp> list;
    IndexedVector<LocalId, TensorType> types(in_.mesh.part().locals.size(), {});
    for (const ActionStep& one : member.steps) {
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
        [&](std::uint32_t id) { return is_used_elsewhere(member, LocalId(id)); }};
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

  /// Adds steps of a member as one step of the list.
  void add(std::size_t m, const std::vector<std::size_t>& group) {
    const Member& member = members_[m];
    if (group.size() == 1 && shares_copy(m, member.steps[group.front()])) return;
    ListedStep listed;
    std::vector<ActionStep> steps;
    std::set<LocalId> made;
    bool sends_later = false;
    for (const std::size_t at : group) {
      ActionStep one = member.steps[at];
      one.member = static_cast<std::uint32_t>(m);
      const Step& what = step(one.step);
      const auto outputs = outputs_of(what);
      for (const LocalId id : inputs_of(what))
        if (!made.contains(id)) listed.reads.push_back(value_of(m, id));
      const bool is_known = std::ranges::all_of(
          outputs, [&](LocalId id) { return in_.mesh.local(id).once_per_step; });
      if (!is_known || member.action.is_first_microbatch) {
        const StepDuration duration = seconds_.of(what);
        listed.seconds += duration.seconds;
        listed.latency += duration.latency;
      }
      if (is_move(one)) {
        listed.lane = StepLane::kNetwork;
        sends_later = one.round == Round::kFirst && std::ranges::any_of(outputs, [&](LocalId id) {
                        return in_.sent.contains(id);
                      });
        if (sends_later) one.part = Part::kWithoutSend;
      }
      made.insert(outputs.begin(), outputs.end());
      one.is_bound = at != group.back();
      steps.push_back(one);
    }
    for (const LocalId id : made) {
      const std::size_t value = graph_.values.size();
      listed.makes.push_back(value);
      graph_.values.push_back({bytes_of(id), is_kept(member.action.microbatch, id)});
      value_of_[{member.action.microbatch, id}] = value;
      made_.insert({member.action.microbatch, id});
      add_to_sums(id, listed);
      if (members_.size() > 1 && in_.copies.has(id))
        copies_[in_.copies.first_equal(id)] = {graph_.steps.size(), value};
    }
    make_unique(listed.reads);
    push(m, std::move(listed), std::move(steps));
    if (!sends_later) return;
    const ActionStep& move = member.steps[group.front()];
    ListedStep send{StepLane::kNetwork, 0, 0, graph_.steps.back().makes, {}};
    push(m, std::move(send),
         {{move.step, move.round, Part::kSend, false, static_cast<std::uint32_t>(m)}});
  }
  void push(std::size_t m, ListedStep listed, std::vector<ActionStep> steps) {
    places_[m].push_back(graph_.steps.size());
    graph_.steps.push_back(std::move(listed));
    steps_of_.push_back(std::move(steps));
  }
  static void make_unique(std::vector<std::size_t>& values) {
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }

  /// If another member has made this copy of a parameter, adds the step behind that one.
  bool shares_copy(std::size_t m, ActionStep one) {
    const auto* move = std::get_if<MoveStep>(&step(one.step).what);
    if (move == nullptr || !in_.copies.has(move->output)) return false;
    const auto copy = copies_.find(in_.copies.first_equal(move->output));
    if (copy == copies_.end()) return false;
    const int microbatch = members_[m].action.microbatch;
    ListedValue& value = graph_.values[copy->second.value];
    value.is_kept = value.is_kept || is_kept(microbatch, move->output);
    value_of_[{microbatch, move->output}] = copy->second.value;
    one.member = static_cast<std::uint32_t>(m);
    steps_of_[copy->second.step].push_back(one);
    places_[m].push_back(std::nullopt);
    return true;
  }

  /// Lets a step that makes a gradient follow the one of an earlier member that adds to the same
  /// sum.
  void add_to_sums(LocalId gradient, ListedStep& listed) {
    if (members_.size() < 2) return;
    for (const std::size_t sum : in_.sums.sums_of(gradient)) {
      const auto earlier = sums_.find(sum);
      if (earlier != sums_.end()) {
        listed.reads.push_back(earlier->second);
        if (!in_.sums.sums()[sum].is_kept()) {
          // The sum is in the memory of the first term.
          listed.reads.push_back(first_terms_.at(sum));
          if (in_.sums.is_direct(gradient)) graph_.values[listed.makes.back()].bytes = 0;
        }
      } else {
        first_terms_[sum] = listed.makes.back();
      }
    }
    for (const std::size_t sum : in_.sums.sums_of(gradient)) {
      sums_[sum] = graph_.values.size();
      listed.makes.push_back(graph_.values.size());
      graph_.values.push_back({});
    }
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
      for (const Member& member : members_) {
        const ValueKey key{member.action.microbatch, gradient};
        if (made_.contains(key)) listed.reads.push_back(value_of_.at(key));
      }
      if (const auto last = sums_.find(sum); last != sums_.end())
        listed.reads.push_back(last->second);
    }
    if (listed.reads.empty()) return;
    make_unique(listed.reads);
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
    graph_.steps.push_back(std::move(listed));
    steps_of_.emplace_back();
  }

  std::size_t value_of(std::size_t m, LocalId id) {
    const int microbatch = members_[m].action.microbatch;
    const auto [found, is_new] =
        value_of_.try_emplace(ValueKey{microbatch, id}, graph_.values.size());
    if (is_new) graph_.values.push_back({bytes_of(id), is_kept(microbatch, id)});
    return found->second;
  }

  /// Step that makes a copy of a parameter, and the copy.
  struct MadeCopy {
    std::size_t step = 0;
    std::size_t value = 0;
  };

  const ListInputs in_;
  StepSeconds& seconds_;
  std::vector<Member> members_;
  std::set<ValueKey> made_;  ///< Values that the compound makes.
  std::map<ValueKey, std::size_t> value_of_;
  std::map<LocalId, MadeCopy> copies_;              ///< Copies made, by the first equal copy.
  std::map<std::size_t, std::size_t> sums_;         ///< Values that stand for sums so far, by sum.
  std::map<std::size_t, std::size_t> first_terms_;  ///< First terms, by sum.
  ListedSteps graph_;
  std::vector<std::vector<ActionStep>> steps_of_;  ///< Members' steps, by step of the graph.
  /// Steps of this graph, by member and in the order of the member's own list; none for a step
  /// that stands behind another one.
  std::vector<std::vector<std::optional<std::size_t>>> places_;
};

}  // namespace

ActionLists::ActionLists(MeshView mesh, const ActionSteps& steps, const ParameterCopies& copies,
                         const GradientSums& sums, const GradientReduction& reduction,
                         std::set<LocalId> sent, std::set<StageId> held, const Schedule& schedule,
                         const transfer::Topology& topology, const CompileOptions& options)
    : mesh_(mesh),
      steps_(steps),
      copies_(copies),
      sums_(sums),
      reduction_(reduction),
      sent_(std::move(sent)),
      held_(std::move(held)),
      schedule_(schedule),
      orders_(!mesh.spans() && options.lowering == Lowering::kLanes && options.network &&
              options.op_seconds != nullptr),
      readers_(mesh.part().locals.size(), {}) {
  if (orders_)
    seconds_.emplace(mesh.partition(), mesh.id(), topology, *options.network, options.op_seconds);
  const std::vector<Step>& all = mesh.part().steps;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const LocalId input : inputs_of(all[i])) readers_[input].push_back(i);
}

const ActionList& ActionLists::of(std::span<const Action> members) {
  return of(list_key(mesh_.partition(), members, schedule_.microbatches));
}

const ActionList& ActionLists::of(const ActionListKey& key) {
  const auto found = lists_.find(key);
  return found != lists_.end() ? found->second : lists_.emplace(key, make(key)).first->second;
}

std::vector<std::size_t> ActionLists::reduced_buckets(const ActionListKey& key) const {
  std::vector<std::size_t> reduced;
  for (std::size_t bucket = 0; bucket < sums_.buckets().size(); ++bucket) {
    const GradientSum& sum = sums_.sums()[sums_.buckets()[bucket].sums.front()];
    const auto starts = [&](const ListedAction& action) {
      return action.stage == sum.stage && runs_pass(action.kind, sum.pass) &&
             (action.is_last_microbatch ? !held_.contains(sum.stage) : !sum.is_kept());
    };
    if (std::ranges::any_of(key, starts)) reduced.push_back(bucket);
  }
  return reduced;
}

ActionList ActionLists::make(const ActionListKey& key) {
  std::vector<std::vector<ActionStep>> steps;
  for (const ListedAction& member : key) {
    steps.push_back(steps_.of(member.stage, member.kind));
    if (member.follows_forward)
      std::erase_if(steps.back(),
                    [](const ActionStep& one) { return one.round == Round::kRecompute; });
  }
  if (!orders_) {
    ActionList result;
    for (std::size_t m = 0; m < steps.size(); ++m) {
      for (ActionStep& one : steps[m]) {
        one.member = static_cast<std::uint32_t>(m);
        result.steps.push_back(one);
      }
    }
    return result;
  }
  CompoundGraph graph({mesh_, copies_, sums_, reduction_, sent_, readers_}, key, steps, *seconds_);
  graph.build(reduced_buckets(key));
  ListOptions options;
  if (key.size() > 1) {
    std::vector<const StepList*> lists;
    for (ListedAction member : key) {
      member.microbatch = 0;
      lists.push_back(&of(ActionListKey{member}).list);
      options.max_bytes += lists.back()->peak_bytes;
    }
    graph.run_one_by_one(lists, options);
    options.min_gain = kMinCompoundGain;
  }
  const double one_by_one =
      options.given.empty()
          ? 0
          : play_steps(graph.graph(), options.given, options.given_awaits).seconds;
  StepList list = list_steps(graph.graph(), options);
  ActionList result = std::move(graph).with_list(std::move(list));
  result.one_by_one_seconds = key.size() > 1 ? one_by_one : result.list.seconds;
  return result;
}

ActionListMap ActionLists::take() {
  if (!orders_) return {};
  const auto& mesh_of_stage = mesh_.partition().mesh_of_stage;
  for (const StageId stage : mesh_of_stage.ids()) {
    if (mesh_of_stage[stage] != mesh_.id()) continue;
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward,
                                  ActionKind::kInputGrad, ActionKind::kWeightGrad})
      of(ActionListKey{{stage, kind, false, false}});
  }
  std::vector<ActionListKey> compounds;
  for (const auto& listed : lists_)
    if (listed.first.size() > 1) compounds.push_back(listed.first);
  for (ActionListKey& key : compounds) {
    for (ListedAction& member : key) member.is_first_microbatch = member.is_last_microbatch = false;
    of(key);
  }
  return std::move(lists_);
}

}  // namespace weft::mesh
