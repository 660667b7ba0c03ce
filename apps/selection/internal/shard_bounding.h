#pragma once

#include <cstdint>
#include <vector>

#include "actors/call/task.h"
#include "apps/selection/internal/point_shuffle.h"
#include "apps/selection/internal/selection_state.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/point_store.h"
#include "apps/selection/selection_messages.h"

namespace weft::apps {

/// Worker's part of bounding (Böther et al., section 4), one shard at a time. A step is decide(),
/// then propagate(). After a death both may be called again for the same step: shards whose saved
/// bounds are of that step are left as they are. Actor's thread only.
class ShardBounding final {
 public:
  ShardBounding(WorkerSession& session, const SelectionSettings& settings, const PointStore& store,
                const SelectionState& state)
      : session_(session), settings_(settings), store_(store), state_(state) {}

  /// Computes the initial bounds of all points.
  void initialise();
  /// Returns counts by bin of the open points' numbers; for kDraw, of all points' numbers.
  std::vector<std::uint64_t> count(const CountRequest& request) const;
  /// Decides points by the bounds of the previous step. Returns their number.
  std::uint64_t decide(const BoundRequest& request) const;
  /// Sends the decisions to the neighbours' owners, which update their bounds. Returns the number
  /// of records.
  actors::task<std::uint64_t> propagate(BoundRequest request);

 private:
  actors::task<std::uint64_t> send_updates(const BoundRequest& request, std::uint32_t shard,
                                           PointShuffle& updates);
  void apply_updates(const BoundRequest& request, std::uint32_t shard, PointShuffle& updates) const;
  /// Returns, by row, which points are open after a step that decided `decided`, if their edges are
  /// sampled afresh. Otherwise all are false.
  std::vector<bool> resampled_points(std::uint32_t shard, const std::vector<bool>& decided) const;

  WorkerSession& session_;
  const SelectionSettings& settings_;
  const PointStore& store_;
  const SelectionState& state_;
};

}  // namespace weft::apps
