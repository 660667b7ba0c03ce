#include "apps/cluster_view/wait_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace weft::apps {
namespace {

using actors::ActorId;
using actors::ProcessId;
using actors::ProcessSurvey;

class GraphMaker final {
 public:
  GraphMaker(const std::vector<ProcessSurvey>& surveys, const std::vector<ProcessLabel>& names) {
    for (const ProcessLabel& name : names) names_.emplace(name.process, name);
    for (const ProcessSurvey& survey : surveys) {
      // A process may be surveyed in two ways; prefers an answer.
      const ProcessSurvey*& known = surveys_[survey.process.id];
      if (known == nullptr || !known->problem.empty()) known = &survey;
    }
    for (const auto& [id, survey] : surveys_) add_process(*survey);
    for (const auto& [id, survey] : surveys_) add_calls(*survey);
    for (const auto& [id, survey] : surveys_) add_silent(*survey);
    for (const auto& [id, survey] : surveys_) add_transfers(*survey);
    sort_waits();
    find_cycles();
  }

  WaitGraph take() { return std::move(graph_); }

 private:
  std::size_t add(ProcessId process, ActorId actor, const std::string& label) {
    const auto [found, is_new] = indices_.try_emplace({process, actor}, graph_.waiters.size());
    if (!is_new) return found->second;
    WaitNode waiter;
    waiter.name = label;
    if (const auto known = names_.find(process); known != names_.end()) {
      waiter.place = known->second.place;
      waiter.group = known->second.group;
      if (actor == ActorId(0)) {
        waiter.name = known->second.name;
        waiter.is_root = known->second.is_root;
      }
    }
    const auto survey = surveys_.find(process);
    if (survey != surveys_.end()) waiter.ending = survey->second->ending;
    if (survey != surveys_.end() && !survey->second->problem.empty()) {
      waiter.problem = survey->second->problem;
      if (const auto known = names_.find(process); known != names_.end())
        waiter.problem = with_diagnosis(waiter.problem, known->second.diagnosis);
    }
    graph_.waiters.push_back(std::move(waiter));
    return found->second;
  }

  void add_process(const ProcessSurvey& survey) {
    for (const actors::ActorSurvey& actor : survey.actors) {
      const std::size_t index = add(survey.process.id, actor.actor, actor.label);
      WaitNode& waiter = graph_.waiters[index];
      waiter.running = actor.running;
      waiter.queued = actor.queued;
      waiter.activity = actor.activity;
      if (actor.activity && actor.activity->number)
        numbers_[{group_of(survey.process.id), *actor.activity->number}] = index;
    }
    const auto known = names_.find(survey.process.id);
    if (known != names_.end() && known->second.is_root) add(survey.process.id, ActorId(0), "");
  }

  void add_calls(const ProcessSurvey& survey) {
    for (const actors::WaitingCall& call : survey.calls) {
      const auto& target = call.target;
      // Methods of the actor system, such as "stop" and "construct", are calls to actor 0.
      const std::size_t on = add(target.process.id, target.actor, target.label);
      if (graph_.waiters[on].name.empty()) graph_.waiters[on].name = target.label;
      const std::size_t from = add(survey.process.id, call.caller, survey.process.name);
      graph_.waiters[from].waits.push_back({on, fmt::format("'{}'", call.method), call.seconds,
                                            call.seconds_left, true, !call.sent, false, false});
    }
  }

  /// Adds a process that does not respond or is ending, even if no call waits for it.
  void add_silent(const ProcessSurvey& survey) {
    const auto known = names_.find(survey.process.id);
    if ((survey.problem.empty() && survey.ending.empty()) || known == names_.end()) return;
    const bool there = std::ranges::any_of(
        indices_, [&](const auto& of) { return of.first.first == survey.process.id; });
    if (!there) add(survey.process.id, ActorId(0), known->second.name);
  }

  void add_transfers(const ProcessSurvey& survey) {
    for (const actors::ActorSurvey& actor : survey.actors) {
      if (!actor.activity || !actor.activity->wait) continue;
      const actors::ActorActivity& activity = *actor.activity;
      const std::size_t from = indices_.at({survey.process.id, actor.actor});
      for (const std::uint32_t number : activity.wait->other_participants) {
        const auto other = numbers_.find({group_of(survey.process.id), number});
        if (other == numbers_.end()) continue;
        const actors::ActorActivity& there = *graph_.waiters[other->second].activity;
        const bool missing =
            there.phase < activity.phase ||
            (there.phase == activity.phase &&
             std::ranges::find(there.pending_keys, activity.wait->key) != there.pending_keys.end());
        graph_.waiters[from].waits.push_back({other->second, activity.wait->what, activity.seconds,
                                              std::nullopt, false, false, !missing, false});
      }
    }
  }

  std::uint64_t group_of(ProcessId process) const {
    const auto known = names_.find(process);
    return known == names_.end() ? 0 : known->second.group;
  }

  /// Sorts waits by name: "front[9]" before "front[10]".
  void sort_waits() {
    const auto order = [this](const WaitNode::WaitEdge& wait) {
      const std::string_view name = graph_.waiters[wait.on].name;
      return std::tuple(name.substr(0, name.find('[')), name.size(), name);
    };
    for (WaitNode& waiter : graph_.waiters)
      std::ranges::stable_sort(waiter.waits,
                               [&](const WaitNode::WaitEdge& one, const WaitNode::WaitEdge& two) {
                                 return order(one) < order(two);
                               });
  }

  static bool holds_up(const WaitNode::WaitEdge& wait) {
    return wait.is_call || !wait.peer_started;
  }

  /// Finds cycles depth first. Each cycle is found at the edge that leads back to a waiter on the
  /// path.
  void find_cycles() {
    state_.assign(graph_.waiters.size(), State::kNew);
    for (std::size_t i = 0; i < graph_.waiters.size(); ++i)
      if (state_[i] == State::kNew) search(i);
  }

  /// Searches without recursion, since a chain may be as long as there are actors.
  void search(std::size_t root) {
    std::vector<std::pair<std::size_t, std::size_t>> path = {{root, 0}};  // waiter and its next
                                                                          // wait
    state_[root] = State::kOnPath;
    while (!path.empty()) {
      auto& [at, next] = path.back();
      auto& waits = graph_.waiters[at].waits;
      if (next == waits.size()) {
        state_[at] = State::kDone;
        path.pop_back();
        continue;
      }
      const WaitNode::WaitEdge& wait = waits[next++];
      if (!holds_up(wait)) continue;
      if (state_[wait.on] == State::kNew) {
        state_[wait.on] = State::kOnPath;
        path.emplace_back(wait.on, 0);
      } else if (state_[wait.on] == State::kOnPath) {
        add_cycle(path, wait.on);
      }
    }
  }

  void add_cycle(const std::vector<std::pair<std::size_t, std::size_t>>& path, std::size_t first) {
    auto begin = std::ranges::find(path, first, &std::pair<std::size_t, std::size_t>::first);
    std::vector<std::size_t> cycle;
    for (; begin != path.end(); ++begin) {
      cycle.push_back(begin->first);
      graph_.waiters[begin->first].waits[begin->second - 1].in_cycle = true;
    }
    const auto first_by_name = std::ranges::min_element(
        cycle, {}, [this](std::size_t waiter) { return graph_.waiters[waiter].name; });
    std::rotate(cycle.begin(), first_by_name, cycle.end());
    graph_.cycles.push_back(std::move(cycle));
  }

  enum class State : std::uint8_t { kNew, kOnPath, kDone };
  WaitGraph graph_;
  std::map<ProcessId, ProcessLabel> names_;
  std::map<ProcessId, const ProcessSurvey*> surveys_;
  std::map<std::pair<ProcessId, ActorId>, std::size_t> indices_;
  // activity number to waiter, by group
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> numbers_;
  std::vector<State> state_;
};

}  // namespace

std::string with_diagnosis(const std::string& problem, const std::string& diagnosis) {
  const bool explained = problem.find(": ") != std::string::npos;
  return explained || diagnosis.empty() ? problem : problem + ": " + diagnosis;
}

WaitGraph WaitGraph::of(const std::vector<ProcessSurvey>& surveys,
                        const std::vector<ProcessLabel>& names) {
  return GraphMaker(surveys, names).take();
}

}  // namespace weft::apps
