// 1F1B with a vocabulary that all actors compute at the same time, as in tensor parallelism (the
// baseline of Vocabulary Parallelism, arXiv 2411.05288, section 6).
//
// Time is divided into slots. A slot begins when the last stage has finished a forward. All actors
// run S and T of its microbatch together, then one backward and one forward each; every second
// actor runs the forward first. So in one slot a forward passes two actors and a backward one:
//
//   actor p-1   S0 T0   B0      F1   | S1 T1   B1      F2   |
//   actor p-2   S0 T0   F1           | S1 T1   F2   B0      |
//   actor p-3   S0 T0           F2   | S1 T1           F3   | S2 T2   B0 ...
//
// Actor r of p has up to (3p - 3r) / 2 microbatches in flight, the first actor 3p / 2.
#include <algorithm>

#include "core/base/error.h"
#include "mesh/schedule/internal/generators.h"

namespace weft::mesh {
namespace {

/// Builder of one actor's actions. Skips microbatches that do not exist.
class SlotActor {
 public:
  SlotActor(std::vector<Action>& actions, int stage, int microbatches)
      : actions_(actions), stage_(stage), microbatches_(microbatches) {}

  void add(ActionKind kind, int microbatch) {
    if (microbatch >= 0 && microbatch < microbatches_)
      actions_.push_back({stage_, kind, microbatch});
  }

 private:
  std::vector<Action>& actions_;
  const int stage_, microbatches_;
};

}  // namespace

Schedule make_interlaced(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, StagePlacement::kOnePerActor);
  schedule.vocabulary_barriers = vocabulary_barriers(VocabularyMode::kInterlaced);
  const int p = request.actors, m = request.microbatches;
  if (p < 2) throw_single_actor(request.name);
  // Slots by which IF precedes stage 0's forward, and by which IB follows its backward.
  constexpr int kAhead = 2, kBehind = 1;
  const int first_forward = 1 + (p - 1) / 2;
  for (int actor = 0; actor < p; ++actor) {
    SlotActor row(schedule.actors[actor], actor, m);
    const int distance = p - 1 - actor;
    for (int slot = -first_forward - kAhead; slot < m + p + kBehind; ++slot) {
      row.add(ActionKind::kInputForward, slot + first_forward + kAhead);
      row.add(ActionKind::kInputBackward, slot - (p - 1) - kBehind);
      row.add(ActionKind::kVocabularyScores, slot);
      row.add(ActionKind::kVocabularyGrads, slot);
      const int forward = slot + 1 + distance / 2, backward = slot - distance;
      if (distance % 2 == 1) row.add(ActionKind::kForward, forward);
      row.add(ActionKind::kBackward, backward);
      if (distance % 2 == 0) row.add(ActionKind::kForward, forward);
    }
  }
  return schedule;
}

}  // namespace weft::mesh
