#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/call/task.h"
#include "apps/selection/internal/point_shuffle.h"
#include "apps/selection/internal/selection_state.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/point_store.h"
#include "apps/selection/selection_messages.h"

namespace weft::apps {

/// Results of a selection for a worker's points: the scores of the chosen points and of as many
/// random points over all workers (Böther et al., section 4.4), and the list of the chosen points.
/// score() writes the list. Actor's thread only.
class SubsetResults final {
 public:
  SubsetResults(WorkerSession& session, const SelectionSettings& settings, const PointStore& store,
                const SelectionState& state)
      : session_(session), settings_(settings), store_(store), state_(state) {}

  /// Computes the worker's summands of both scores, and writes the chosen points.
  actors::task<ScoreReport> score(ScoreRequest request);
  /// Returns the chosen points of a shard by ascending id, from the `first`-th on, as many as fit
  /// into a message. Empty after the last one.
  std::vector<ResultPoint> chosen_points(std::uint32_t shard, std::uint64_t first) const;
  /// Returns, per shard, the SHA-256 of the chosen points' ids, ascending, 4 bytes each.
  std::vector<std::string> digests() const;
  /// Returns the edges of those points that the worker owns.
  std::vector<PointNeighbour> neighbours_of(const std::vector<PointId>& points) const;

 private:
  /// Adds the summands of a shard's points to `report`, and sends the chosen points' edges.
  actors::task<> score_shard(const ScoreRequest& request, std::uint32_t shard, ScoreReport& report,
                             PointShuffle& edges);

  WorkerSession& session_;
  const SelectionSettings& settings_;
  const PointStore& store_;
  const SelectionState& state_;
};

}  // namespace weft::apps
