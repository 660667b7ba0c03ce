// Schedules with v stages per actor, placed in loops (stage s on actor s mod p): interleaved 1F1B
// (Narayanan et al., 2021), breadth-first (Lamy-Poirier, 2023), and ZB-H1 (Qi et al., 2024), which
// is the published one if v = 1.
#include <algorithm>

#include "mesh/schedule/internal/generators.h"

namespace weft::mesh {
namespace {

struct ChunkMicrobatch {
  int chunk = 0;
  int microbatch = 0;
};

/// Order in which microbatches pass an actor's chunks: group by group, each group through chunk 0,
/// then through chunk 1, ...
struct VirtualOrder {
  std::vector<ChunkMicrobatch> forwards;
  std::vector<ChunkMicrobatch> backwards;  ///< The same with chunks in reverse.
  int group = 1;                           ///< Size of the largest group.
};

VirtualOrder virtual_order(const ScheduleRequest& request) {
  const int m = request.microbatches;
  std::vector<int> sizes;
  if (request.group > 0) {
    for (int from = 0; from < m; from += request.group)
      sizes.push_back(std::min(request.group, m - from));
    // A last group with fewer microbatches than actors would leave actors idle, so it joins the one
    // before.
    if (sizes.size() > 1 && sizes.back() < request.actors) {
      sizes[sizes.size() - 2] += sizes.back();
      sizes.pop_back();
    }
  } else {
    // One round for each whole set of p microbatches; the remainder is spread among the rounds.
    const int rounds = std::max(1, m / request.actors);
    for (int round = 0; round < rounds; ++round)
      sizes.push_back(m / rounds + (round < m % rounds ? 1 : 0));
  }
  VirtualOrder order;
  order.group = *std::ranges::max_element(sizes);
  int from = 0;
  for (const int size : sizes) {
    for (int chunk = 0; chunk < request.chunks; ++chunk) {
      for (int i = from; i < from + size; ++i) {
        order.forwards.push_back({chunk, i});
      }
    }
    for (int chunk = request.chunks - 1; chunk >= 0; --chunk) {
      for (int i = from; i < from + size; ++i) order.backwards.push_back({chunk, i});
    }
    from += size;
  }
  return order;
}

/// Builds a schedule with looped placement. `fill(actor, add)` calls `add(kind, slot)` for the
/// actor's actions in order.
template <typename Fill>
Schedule make_looped(const ScheduleRequest& request, const Fill& fill) {
  Schedule schedule = empty_schedule(request, StagePlacement::kLooped);
  for (int actor = 0; actor < request.actors; ++actor) {
    fill(actor, [&](ActionKind kind, const ChunkMicrobatch& slot) {
      schedule.actors[actor].push_back(
          {slot.chunk * request.actors + actor, kind, slot.microbatch});
    });
  }
  return schedule;
}

/// Adds `warm_up` forwards, then alternates forward and backward until both are used up.
/// `backward(i)` adds the i-th backward.
template <typename Add, typename Backward>
void alternate(const VirtualOrder& order, std::size_t warm_up, const Add& add,
               const Backward& backward) {
  const std::size_t total = order.forwards.size();
  warm_up = std::min(total, warm_up);
  for (std::size_t i = 0; i < warm_up; ++i) add(ActionKind::kForward, order.forwards[i]);
  for (std::size_t i = 0; i < total; ++i) {
    if (warm_up + i < total) add(ActionKind::kForward, order.forwards[warm_up + i]);
    backward(i);
  }
}

}  // namespace

Schedule make_interleaved_1f1b(const ScheduleRequest& request) {
  const VirtualOrder order = virtual_order(request);
  return make_looped(request, [&](int actor, const auto& add) {
    const int warm_up = 2 * (request.actors - 1 - actor) + (request.chunks - 1) * order.group;
    alternate(order, static_cast<std::size_t>(warm_up), add,
              [&](std::size_t i) { add(ActionKind::kBackward, order.backwards[i]); });
  });
}

Schedule make_breadth_first(const ScheduleRequest& request) {
  return make_looped(request, [&](int, const auto& add) {
    for (int chunk = 0; chunk < request.chunks; ++chunk) {
      for (int i = 0; i < request.microbatches; ++i)
        add(ActionKind::kForward, ChunkMicrobatch{chunk, i});
    }
    for (int chunk = request.chunks - 1; chunk >= 0; --chunk) {
      for (int i = 0; i < request.microbatches; ++i)
        add(ActionKind::kBackward, ChunkMicrobatch{chunk, i});
    }
  });
}

Schedule make_zb_h1(const ScheduleRequest& request) {
  const VirtualOrder order = virtual_order(request);
  return make_looped(request, [&](int actor, const auto& add) {
    // W of the i-th backward follows the input gradient of the (i + actor)-th. So all actors hold
    // the same number of microbatches, and the delayed W fill the bubble at the end.
    const std::size_t behind = actor;
    const int warm_up = request.actors - 1 - actor + (request.chunks - 1) * order.group;
    std::size_t weights = 0;
    alternate(order, static_cast<std::size_t>(warm_up), add, [&](std::size_t i) {
      add(ActionKind::kInputGrad, order.backwards[i]);
      if (i >= behind) add(ActionKind::kWeightGrad, order.backwards[weights++]);
    });
    while (weights < order.backwards.size())
      add(ActionKind::kWeightGrad, order.backwards[weights++]);
  });
}

}  // namespace weft::mesh
