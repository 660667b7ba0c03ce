#pragma once

#include <cstdint>

#include "actors/call/task.h"
#include "apps/selection/graph_messages.h"
#include "apps/selection/internal/found_neighbours.h"
#include "apps/selection/internal/graph_input_reader.h"
#include "apps/selection/internal/point_copies.h"
#include "apps/selection/internal/point_shuffle.h"
#include "apps/selection/internal/worker_session.h"

namespace weft::apps {

/// Makes edges symmetric and writes the worker's shards of the store. An edge exists if either end
/// has found it; given neighbours must be listed by both. Actor's thread only.
class GraphLinker final {
 public:
  GraphLinker(WorkerSession& session, const GraphSettings& settings, const GraphInputReader& input,
              PointCopies& copies, const FoundNeighbours& found)
      : session_(session), settings_(settings), input_(input), copies_(copies), found_(found) {}

  /// Links all points. Called on all ranks. Returns the number of directed edges of the worker's
  /// shards.
  actors::task<std::uint64_t> link(LinkRequest request);

 private:
  /// Sends the edges of a shard's points to their other ends.
  actors::task<> send_edges(std::uint32_t shard, std::uint32_t probes, PointShuffle& edges) const;
  /// Writes a shard of the store. Returns the number of its directed edges.
  std::uint64_t write_shard(const LinkRequest& request, std::uint32_t shard,
                            PointShuffle& edges) const;
  /// Throws Error(kInvalidArgument), which names the rows, unless both ends list each edge.
  void check_symmetry(std::uint32_t shard, const NeighbourLists& own,
                      const NeighbourLists& of_others) const;

  WorkerSession& session_;
  const GraphSettings& settings_;
  const GraphInputReader& input_;
  PointCopies& copies_;
  const FoundNeighbours& found_;
};

}  // namespace weft::apps
