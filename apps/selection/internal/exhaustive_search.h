#pragma once

#include <cstdint>

#include "apps/selection/graph_messages.h"
#include "apps/selection/internal/found_neighbours.h"
#include "apps/selection/internal/point_copies.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/nearest.h"

namespace weft::apps {

/// Search that compares points with all points, one shard and one block of rows at a time. Actor's
/// thread only.
class ExhaustiveSearch final {
 public:
  ExhaustiveSearch(const WorkerSession& session, const GraphSettings& settings, PointCopies& copies,
                   const FoundNeighbours& found)
      : session_(session), settings_(settings), copies_(copies), found_(found) {}

  /// Returns the number of vectors of `width` numbers that are read at a time.
  static std::uint64_t rows_at_a_time(std::uint64_t width);

  /// Finds the neighbours of the worker's points among all points, and writes them.
  SearchCount search_all();
  /// Returns the neighbours of `queries` among the worker's points.
  NeighbourLists nearest_of(const VectorBlock& queries);

 private:
  /// Updates `lists` of `queries` with the rows from `first` to before `past`.
  SearchCount compare(const VectorBlock& queries, std::uint64_t first, std::uint64_t past,
                      NeighbourLists& lists);

  const WorkerSession& session_;
  const GraphSettings& settings_;
  PointCopies& copies_;
  const FoundNeighbours& found_;
};

}  // namespace weft::apps
