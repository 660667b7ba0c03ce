#include "mesh/costs/internal/stage_timeline.h"

#include <algorithm>

#include "mesh/program/step_order.h"
#include "mesh/program/step_seconds.h"

namespace weft::mesh {

bool runs_once_per_step(const MeshPartition& part, std::size_t step) {
  return part.locals[outputs_of(part.steps[step]).front()].once_per_step;
}

namespace {

const ActionListMap& lists_of(const TrainingPlan& plan, StageId stage) {
  static const ActionListMap kNone;
  const MeshId mesh = plan.partition.mesh_of_stage[stage];
  return static_cast<std::size_t>(mesh.value()) < plan.train.lists.size() ? plan.train.lists[mesh]
                                                                          : kNone;
}

/// Returns a list's graph with other durations of its steps. Reductions of gradients keep theirs.
ListedSteps with_durations(const ActionList& list, const std::vector<StepDuration>& durations) {
  ListedSteps graph = list.graph;
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    ListedStep& step = graph.steps[i];
    // A parameter that is gathered once per step has no duration after the first microbatch.
    if (list.members[i].empty() || step.seconds + step.latency <= 0) continue;
    step.seconds = step.latency = 0;
    for (const ActionStep& member : list.members[i]) {
      step.seconds += durations[member.step].seconds;
      step.latency += durations[member.step].latency;
      // Members of a compound share a move.
      if (step.lane == StepLane::kNetwork) break;
    }
  }
  return graph;
}

/// Plays a list with other durations of its steps.
StepList played(const ActionList& list, const std::vector<StepDuration>& durations) {
  return play_steps(with_durations(list, durations), list.list.order, list.list.awaits);
}

/// Returns the seconds in which a list's collectives use the links, without reductions of
/// gradients.
double moving_seconds(const ActionList& list, const std::vector<StepDuration>& durations) {
  double seconds = 0;
  for (const ListedStep& step : with_durations(list, durations).steps)
    if (step.lane == StepLane::kNetwork && !step.starts_itself) seconds += step.seconds;
  return seconds;
}

/// Edges of the partition that send the value from the mesh.
std::vector<std::size_t> edges_of(const Partition& partition, MeshId mesh, LocalId value) {
  std::vector<std::size_t> edges;
  for (std::size_t e = 0; e < partition.edges.size(); ++e)
    if (partition.edges[e].from_mesh == mesh && partition.edges[e].source == value)
      edges.push_back(e);
  return edges;
}

/// Returns the timeline of steps that run one after the other.
StageTimeline graph_timeline(const TrainingPlan& plan, StageId stage, bool forward,
                             const std::vector<StepDuration>& durations) {
  const Partition& partition = plan.partition;
  const MeshId mesh = partition.mesh_of_stage[stage];
  const MeshPartition& part = partition.per_mesh[mesh];
  StageTimeline line;
  int happened = 0;
  for (const std::size_t i :
       steps_of(part, stage, forward ? ActionKind::kForward : ActionKind::kBackward)) {
    const Step& step = part.steps[i];
    const bool weights = step.pass == Pass::kWeightGrad;
    ++happened;
    for (const LocalId input : inputs_of(step)) {
      line.first_use.try_emplace(input, TimelinePoint{line.work, line.weights, happened});
      bool& by_work = line.used_by_work[input];
      by_work = by_work || !weights;
    }
    (weights ? line.weights : line.work) +=
        durations[i].total() / (runs_once_per_step(part, i) ? plan.schedule.microbatches : 1);
    for (const LocalId output : outputs_of(step))
      for (const std::size_t e : edges_of(partition, mesh, output))
        line.sent[e] = {line.work, line.weights, ++happened};
  }
  return line;
}

/// Maker of the timeline of a stage whose actions have lists. Used once.
class ListedTimeline {
 public:
  ListedTimeline(const TrainingPlan& plan, StageId stage, bool forward,
                 const std::vector<StepDuration>& durations)
      : plan_(plan),
        stage_(stage),
        mesh_(plan.partition.mesh_of_stage[stage]),
        lists_(plan.train.lists[mesh_]),
        forward_(forward),
        durations_(durations) {}

  StageTimeline make() {
    if (forward_) {
      const Events events = events_of(ActionKind::kForward);
      line_.work = mean_seconds(ActionKind::kForward, events.seconds);
      line_.moving = events.moving;
      add(events, [](double time) { return TimelinePoint{time, 0, 0}; });
      return std::move(line_);
    }
    const Events input = events_of(ActionKind::kInputGrad);
    const Events weights = events_of(ActionKind::kWeightGrad);
    const Events both = events_of(ActionKind::kBackward);
    line_.work = mean_seconds(ActionKind::kInputGrad, input.seconds);
    line_.moving = input.moving;
    line_.moving_in_both = both.moving;
    line_.weights = mean_seconds(ActionKind::kWeightGrad, weights.seconds);
    line_.hidden =
        std::clamp(line_.work + line_.weights - mean_seconds(ActionKind::kBackward, both.seconds),
                   0.0, line_.weights);
    // A point within a B is given by the parts of I and W that are done then.
    const double filled = std::max(line_.weights - line_.hidden, 0.0);
    const auto rest = [&, this](double time, double work) {
      const double of_weights = std::clamp(time - work, 0.0, filled);
      return filled > 0 ? of_weights / filled * line_.weights : 0.0;
    };
    for (const auto& [value, use] : both.uses) {
      const auto by_input = input.uses.find(value), by_weights = weights.uses.find(value);
      const bool by_work = by_input != input.uses.end();
      TimelinePoint point;
      if (by_work) {
        point.work = std::min(by_input->second.time, line_.work);
        point.weights = rest(use.time, point.work);
      } else {
        point.weights = by_weights != weights.uses.end() ? by_weights->second.time : 0;
        const double weights_in_both =
            line_.weights > 0 ? point.weights / line_.weights * filled : 0;
        point.work = std::clamp(use.time - weights_in_both, 0.0, line_.work);
      }
      point.step = use.number;
      line_.first_use[value] = point;
      line_.used_by_work[value] = by_work;
    }
    for (const auto& [edge, sent] : both.sent) {
      const auto by_input = input.sent.find(edge);
      TimelinePoint point;
      point.work =
          by_input != input.sent.end() ? std::min(by_input->second.time, line_.work) : line_.work;
      point.weights = rest(sent.time, point.work);
      point.step = sent.number;
      line_.sent[edge] = point;
    }
    return std::move(line_);
  }

 private:
  /// Time within an action, without its recomputation, and number of the event.
  struct Event {
    double time = 0;
    int number = 0;
  };
  struct Events {
    double seconds = 0, moving = 0;
    std::map<LocalId, Event> uses;      ///< First uses of values.
    std::map<std::size_t, Event> sent;  ///< Sends, by edge.
  };

  Events events_of(ActionKind kind) const {
    const ActionList& list = lists_.at({{stage_, kind, false, false}});
    const StepList times = played(list, durations_);
    const double again = recomputed_seconds(list);
    const auto since = [&](double time) { return std::max(time - again, 0.0); };
    Events events;
    events.seconds = since(times.seconds);
    events.moving = moving_seconds(list, durations_);
    const MeshPartition& part = plan_.partition.per_mesh[mesh_];
    int happened = 0;
    for (const std::size_t at : times.order) {
      ++happened;
      for (const ActionStep& one : list.members[at])
        if (one.part != ActionStep::Part::kSend && one.round == ActionStep::Round::kFirst)
          for (const LocalId input : inputs_of(part.steps[one.step]))
            events.uses.try_emplace(input, Event{since(times.begin[at]), happened});
      for (const ActionStep& one : list.members[at])
        if (one.part != ActionStep::Part::kWithoutSend && one.round == ActionStep::Round::kFirst)
          for (const LocalId output : outputs_of(part.steps[one.step]))
            for (const std::size_t e : edges_of(plan_.partition, mesh_, output))
              events.sent[e] = {since(times.end[at]), ++happened};
    }
    return events;
  }
  double recomputed_seconds(const ActionList& list) const {
    double seconds = 0;
    for (const auto& members : list.members)
      for (const ActionStep& one : members)
        if (one.round == ActionStep::Round::kRecompute &&
            !runs_once_per_step(plan_.partition.per_mesh[mesh_], one.step))
          seconds += durations_[one.step].total();
    return seconds;
  }
  /// Returns the mean over the microbatches, of which the first may gather parameters for all.
  double mean_seconds(ActionKind kind, double other) const {
    const int microbatches = plan_.schedule.microbatches;
    for (const bool is_last : {false, true}) {
      const auto first = lists_.find({{stage_, kind, true, is_last}});
      if (first == lists_.end()) continue;
      const double seconds = std::max(
          played(first->second, durations_).seconds - recomputed_seconds(first->second), 0.0);
      // The last microbatch's reductions count apart.
      if (!is_last) return (seconds + (microbatches - 1) * other) / microbatches;
      if (kind == ActionKind::kForward) return seconds;
    }
    return other;
  }
  template <typename PointOf>
  void add(const Events& events, const PointOf& point_of) {
    for (const auto& [value, use] : events.uses) {
      line_.first_use[value] = point_of(use.time);
      line_.first_use[value].step = use.number;
      line_.used_by_work[value] = true;
    }
    for (const auto& [edge, sent] : events.sent) {
      line_.sent[edge] = point_of(sent.time);
      line_.sent[edge].step = sent.number;
    }
  }

  const TrainingPlan& plan_;
  const StageId stage_;
  const MeshId mesh_;
  const ActionListMap& lists_;
  const bool forward_;
  const std::vector<StepDuration>& durations_;
  StageTimeline line_;
};

}  // namespace

std::map<CompoundMembers, ListedCompound> listed_compounds(
    const TrainingPlan& plan, MeshId mesh, const std::vector<StepDuration>& durations) {
  std::map<CompoundMembers, ListedCompound> compounds;
  if (plan.train.lists.empty()) return compounds;
  for (const auto& [key, list] : plan.train.lists[mesh]) {
    const auto is_amid = [](const ListedAction& member) {
      return !member.is_first_microbatch && !member.is_last_microbatch;
    };
    if (key.size() < 2 || !std::ranges::all_of(key, is_amid)) continue;
    CompoundMembers members;
    for (const ListedAction& member : key)
      members.push_back({member.stage.value(), member.kind, member.microbatch});
    const StepList times = played(list, durations);
    CompoundCosts& compound = compounds[members].costs;
    compounds[members].moving = moving_seconds(list, durations);
    compound.time = times.seconds;
    for (const std::size_t at : times.order) {
      for (const ActionStep& one : list.members[at]) {
        if (one.part == ActionStep::Part::kWithoutSend || one.round != ActionStep::Round::kFirst)
          continue;
        for (const LocalId output : outputs_of(plan.partition.per_mesh[mesh].steps[one.step]))
          for (const std::size_t edge : edges_of(plan.partition, mesh, output))
            compound.made_at[{static_cast<int>(edge), static_cast<int>(one.member)}] =
                times.seconds > 0 ? std::min(times.end[at] / times.seconds, 1.0) : 1;
      }
    }
  }
  return compounds;
}

double all_reduce_seconds(const TrainingPlan& plan, MeshId mesh, const std::vector<int>& axes,
                          const TensorType& type) {
  const OpTimeModel none = cost_model_seconds(0);
  return StepSeconds(plan.partition, mesh, plan.topology, plan.network, none)
      .all_reduce(type, axes)
      .total();
}

std::vector<StepDuration> step_durations(const TrainingPlan& plan, MeshId mesh,
                                         const OpTimeModel& seconds) {
  StepSeconds timer(plan.partition, mesh, plan.topology, plan.network, seconds);
  std::vector<StepDuration> result;
  for (const Step& step : plan.partition.per_mesh[mesh].steps) result.push_back(timer.of(step));
  return result;
}

StageTimeline stage_timeline(const TrainingPlan& plan, StageId stage, bool forward,
                             const std::vector<StepDuration>& durations) {
  const ActionListMap& lists = lists_of(plan, stage);
  return lists.empty() ? graph_timeline(plan, stage, forward, durations)
                       : ListedTimeline(plan, stage, forward, durations).make();
}

std::optional<double> listed_late_reduction(const TrainingPlan& plan, StageId stage,
                                            const std::vector<StepDuration>& durations) {
  const ActionListMap& lists = lists_of(plan, stage);
  const ActionList* last = nullptr;
  ActionListKey amid;
  for (const auto& [key, list] : lists) {
    const bool is_last = std::ranges::any_of(key, [&](const ListedAction& member) {
      return member.is_last_microbatch && member.stage == stage && gives_weight_grad(member.kind);
    });
    // Members of a compound have lists of their own too, which do not run.
    if (!is_last || key.size() <= amid.size()) continue;
    last = &list;
    amid = key;
  }
  if (last == nullptr) return std::nullopt;
  const bool reduces =
      std::ranges::any_of(last->graph.steps, [](const ListedStep& s) { return s.starts_itself; });
  if (!reduces) return std::nullopt;
  for (ListedAction& member : amid) member.is_first_microbatch = member.is_last_microbatch = false;
  const StepList reduced = played(*last, durations), other = played(lists.at(amid), durations);
  return std::max(reduced.seconds + reduced.late - other.seconds, 0.0);
}

}  // namespace weft::mesh
