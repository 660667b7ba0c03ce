#include "mesh/program/step_emitter.h"

#include <algorithm>
#include <utility>

namespace weft::mesh {

StepEmitter::StepEmitter(const Partition& partition, const Schedule& schedule,
                         MeshCompilers& compilers, std::map<transfer::DeviceId, Emitter>& emitters,
                         const ActorsOfMeshes& actors, const std::vector<OrderedAction>& order)
    : schedule_(schedule), order_(order), all_(compilers) {
  const std::size_t n = schedule.actors.size();
  compilers_.resize(n);
  emitters_.resize(n);
  for (std::size_t actor = 0; actor < n; ++actor)
    for (auto& compiler : compilers)
      if (compiler->has_ranks_of(actor)) compilers_[actor].push_back(compiler.get());
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
  const auto rests = place_rests();
  for (std::size_t actor = 0; actor < compilers_.size(); ++actor) {
    for (MeshCompiler* compiler : compilers_[actor]) compiler->post_first_receives(actor);
    for (std::size_t i = 0; i <= schedule_.actors[actor].size(); ++i) {
      for (const int microbatch : rests[actor][i]) emit_rest(actor, microbatch);
      if (i == schedule_.actors[actor].size()) break;
      emit_action({actor, i});
      for (MeshCompiler* compiler : compilers_[actor]) compiler->action_is_over({actor, i});
    }
  }
}

void StepEmitter::emit_safe(const std::vector<PlannedEdge>& edges) {
  std::map<int, std::size_t> scored;
  const auto run = [&](const ActionPlace& place) {
    emit_action(place);
    const Action& action = schedule_.actors[place.actor][place.index];
    // What waits for an exchange comes when the last device has come to it.
    if (has_rests() && action.kind == ActionKind::kVocabularyScores &&
        ++scored[action.microbatch] == compilers_.size())
      for (std::size_t actor = 0; actor < compilers_.size(); ++actor)
        emit_rest(actor, action.microbatch);
    std::vector<OutgoingTensor> made;
    for (const auto& compiler : all_)
      for (OutgoingTensor& tensor : compiler->take_outgoing()) made.push_back(std::move(tensor));
    return made;
  };
  const auto move = [&](const OutgoingTensor& outgoing) {
    const MeshEdge& edge = edges[outgoing.edge].edge;
    all_[edge.from_mesh]->transfer_now(outgoing);
    all_[edge.to_mesh]->transfer_now(outgoing);
  };
  walk_total_order(order_, run, move);
}

void StepEmitter::emit_action(const ActionPlace& place) {
  const Action& action = schedule_.actors[place.actor][place.index];
  for (Emitter* emitter : emitters_[place.actor])
    emitter->begin({action.stage, action.kind, action.microbatch});
  for (MeshCompiler* compiler : compilers_[place.actor]) compiler->emit_action(place);
}

void StepEmitter::emit_rest(std::size_t actor, int microbatch) {
  const auto& actions = schedule_.actors[actor];
  const auto scores = std::ranges::find(actions, ActionKind::kVocabularyScores, &Action::kind);
  for (Emitter* emitter : emitters_[actor])
    emitter->begin({scores->stage, ActionKind::kVocabularyScores, microbatch, true});
  spanning_->emit_rest_of_scores(actor, microbatch);
}

bool StepEmitter::has_rests() const {
  if (spanning_ == nullptr) return false;
  return schedule_.vocabulary_barriers == 1 ||
         std::ranges::none_of(schedule_.actors.front(), [](const Action& action) {
           return action.kind == ActionKind::kVocabularyGrads;
         });
}

std::vector<std::vector<std::vector<int>>> StepEmitter::place_rests() const {
  std::vector<std::vector<std::vector<int>>> rests;
  for (const auto& actions : schedule_.actors) rests.emplace_back(actions.size() + 1);
  if (!has_rests()) return rests;
  std::vector<double> exchanged(schedule_.microbatches, 0);
  std::vector<std::vector<double>> starts(schedule_.actors.size());
  std::vector<std::vector<std::size_t>> scores(schedule_.actors.size());
  for (std::size_t actor = 0; actor < starts.size(); ++actor) {
    starts[actor].resize(schedule_.actors[actor].size());
    scores[actor].resize(schedule_.microbatches);
  }
  for (const OrderedAction& ordered : order_) {
    const auto [actor, index] = ordered.place;
    starts[actor][index] = ordered.start;
    const Action& action = schedule_.actors[actor][index];
    if (action.kind != ActionKind::kVocabularyScores) continue;
    double& end = exchanged[action.microbatch];
    end = std::max(end, ordered.finish);
    scores[actor][action.microbatch] = index;
  }
  for (std::size_t actor = 0; actor < starts.size(); ++actor) {
    for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch) {
      std::size_t at = scores[actor][microbatch] + 1;
      while (at < starts[actor].size() && starts[actor][at] < exchanged[microbatch]) ++at;
      rests[actor][at].push_back(microbatch);
    }
  }
  return rests;
}

}  // namespace weft::mesh
