#include "mesh/program/internal/step_emitter.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace weft::mesh {
namespace {

/// Share of an action's time for which waiting is better than running another of its steps first.
constexpr double kMaxWaitShare = 0.05;

}  // namespace

StepEmitter::StepEmitter(const Partition& partition, const Schedule& schedule,
                         MeshCompilers& compilers, std::map<transfer::DeviceId, Emitter>& emitters,
                         const ActorsOfMeshes& actors, const std::vector<OrderedAction>& order)
    : schedule_(schedule), order_(order), all_(compilers) {
  const std::size_t n = schedule.actors.size();
  compilers_.resize(n);
  emitters_.resize(n);
  for (std::size_t actor = 0; actor < n; ++actor)
    for (auto& compiler : compilers)
      if (compiler->emitters.has_ranks_of(actor)) compilers_[actor].push_back(compiler.get());
  for (const MeshId mesh : partition.meshes.ids()) {
    if (partition.spans(mesh)) {
      spanning_ = compilers[mesh].get();
      continue;
    }
    for (const transfer::DeviceId device : partition.meshes[mesh].devices())
      emitters_[actors[mesh].front()].push_back(&emitters.at(device));
  }
}

void StepEmitter::emit_lanes() {
  const auto deferred = place_deferred_scores();
  for (std::size_t actor = 0; actor < compilers_.size(); ++actor) {
    for (MeshCompiler* compiler : compilers_[actor]) compiler->edges.post_first_receives(actor);
    const std::size_t actions = schedule_.actors[actor].size();
    for (std::size_t begin = 0; begin < actions;) {
      emit_compound({actor, begin}, deferred[actor][begin]);
      const std::size_t end = end_of_compound(schedule_.actors[actor], begin);
      for (; begin < end; ++begin)
        for (MeshCompiler* compiler : compilers_[actor])
          compiler->edges.finish_action({actor, begin});
    }
    for (const DeferredScores& half : deferred[actor][actions])
      emit_deferred_scores(actor, half.microbatch);
  }
}

void StepEmitter::emit_safe(const std::vector<PlannedEdge>& edges) {
  std::map<int, std::size_t> scored;
  const auto run = [&](const ActionPlace& place) {
    const Action& action = schedule_.actors[place.actor][place.index];
    if (!action.joins_previous) emit_compound(place);
    // The second halves follow when the last device has reached the exchange.
    if (has_deferred_scores() && action.kind == ActionKind::kVocabularyScores &&
        ++scored[action.microbatch] == compilers_.size())
      for (std::size_t actor = 0; actor < compilers_.size(); ++actor)
        emit_deferred_scores(actor, action.microbatch);
    std::vector<OutgoingTensor> made;
    for (const auto& compiler : all_)
      for (OutgoingTensor& tensor : compiler->edges.take_ready_tensors())
        made.push_back(std::move(tensor));
    return made;
  };
  const auto move = [&](const OutgoingTensor& outgoing) {
    const MeshEdge& edge = edges[outgoing.edge].edge;
    all_[edge.from_mesh]->edges.emit_blocking_transfer(outgoing);
    all_[edge.to_mesh]->edges.emit_blocking_transfer(outgoing);
  };
  walk_global_order(order_, run, move);
}

void StepEmitter::emit_compound(const ActionPlace& place,
                                const std::vector<DeferredScores>& deferred) {
  const std::vector<Action>& actions = schedule_.actors[place.actor];
  const std::span<const Action> members =
      std::span(actions).subspan(place.index, end_of_compound(actions, place.index) - place.index);
  auto next = deferred.begin();
  const auto emit_until = [&](double done) {
    const auto first = next;
    for (; next != deferred.end() && next->share <= done; ++next)
      emit_deferred_scores(place.actor, next->microbatch);
    return next != first;
  };
  std::optional<std::size_t> current;  // Member whose steps are emitted now.
  std::vector<bool> has_begun(members.size(), false);
  ActionEmitter::Hooks hooks;
  hooks.enter = [&](std::size_t member) {
    if (current == member) return;
    const Action& action = members[member];
    for (Emitter* emitter : emitters_[place.actor])
      emitter->begin({action.stage, action.kind, action.microbatch, has_begun[member]});
    current = member;
    has_begun[member] = true;
  };
  emit_until(0);
  hooks.enter(0);
  if (next != deferred.end()) {
    hooks.between = [&](double done) {
      const std::size_t member = *current;
      if (!emit_until(done)) return;
      current.reset();
      hooks.enter(member);
    };
  }
  for (MeshCompiler* compiler : compilers_[place.actor])
    compiler->actions.emit(static_cast<int>(place.actor), members, hooks);
  for (std::size_t member = 0; member < members.size(); ++member)
    if (!has_begun[member]) hooks.enter(member);
  emit_until(1);
}

void StepEmitter::emit_deferred_scores(std::size_t actor, int microbatch) {
  const auto& actions = schedule_.actors[actor];
  const auto scores = std::ranges::find(actions, ActionKind::kVocabularyScores, &Action::kind);
  for (Emitter* emitter : emitters_[actor])
    emitter->begin({scores->stage, ActionKind::kVocabularyScores, microbatch, true});
  spanning_->actions.emit_deferred_scores(actor, microbatch);
}

bool StepEmitter::has_deferred_scores() const {
  if (spanning_ == nullptr) return false;
  return schedule_.vocabulary_barriers == 1 ||
         std::ranges::none_of(schedule_.actors.front(), [](const Action& action) {
           return action.kind == ActionKind::kVocabularyGrads;
         });
}

std::vector<std::vector<std::vector<StepEmitter::DeferredScores>>>
StepEmitter::place_deferred_scores() const {
  std::vector<std::vector<std::vector<DeferredScores>>> deferred;
  for (const auto& actions : schedule_.actors) deferred.emplace_back(actions.size() + 1);
  if (!has_deferred_scores()) return deferred;
  std::vector<double> exchanged(schedule_.microbatches, 0);
  std::vector<std::vector<const OrderedAction*>> ordered(schedule_.actors.size());
  std::vector<std::vector<std::size_t>> scores(schedule_.actors.size());
  for (std::size_t actor = 0; actor < ordered.size(); ++actor) {
    ordered[actor].resize(schedule_.actors[actor].size());
    scores[actor].resize(schedule_.microbatches);
  }
  for (const OrderedAction& one : order_) {
    const auto [actor, index] = one.place;
    ordered[actor][index] = &one;
    const Action& action = schedule_.actors[actor][index];
    if (action.kind != ActionKind::kVocabularyScores) continue;
    double& end = exchanged[action.microbatch];
    end = std::max(end, one.finish);
    scores[actor][action.microbatch] = index;
  }
  for (std::size_t actor = 0; actor < ordered.size(); ++actor) {
    for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch) {
      const double end = exchanged[microbatch];
      std::size_t at = scores[actor][microbatch] + 1;
      while (at < ordered[actor].size() && ordered[actor][at]->finish <= end) ++at;
      DeferredScores half{microbatch};
      if (at < ordered[actor].size()) {
        const OrderedAction& during = *ordered[actor][at];
        const double time = during.finish - during.start;
        if (time > 0) half.share = (end - during.start) / time - kMaxWaitShare;
      }
      deferred[actor][at].push_back(half);
    }
  }
  return deferred;
}

}  // namespace weft::mesh
