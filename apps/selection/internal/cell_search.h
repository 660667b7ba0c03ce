#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/call/task.h"
#include "apps/selection/graph_messages.h"
#include "apps/selection/internal/cell_group.h"
#include "apps/selection/internal/found_neighbours.h"
#include "apps/selection/internal/graph_input_reader.h"
#include "apps/selection/internal/point_copies.h"
#include "apps/selection/internal/point_shuffle.h"
#include "apps/selection/internal/recall_sample.h"
#include "apps/selection/internal/worker_session.h"

namespace weft::apps {

/// Worker's part of the approximate search (an inverted file: k-means cells). A point is a base in
/// the cell of its nearest centroid, and a query in its nearest cells. Cell c is searched by rank c
/// modulo the number of ranks. A search is scatter(), then search(). Only one group of cells is in
/// memory at a time. Actor's thread only.
class CellSearch final {
 public:
  CellSearch(WorkerSession& session, const GraphSettings& settings, const GraphInputReader& input,
             PointCopies& copies, const FoundNeighbours& found, const RecallSample& recall)
      : session_(session),
        settings_(settings),
        input_(input),
        copies_(copies),
        found_(found),
        recall_(recall) {}

  /// Trains the centroids and reads the recall sample: on the holder, for all ranks.
  actors::task<> train(TrainRequest request);
  /// Sends the worker's points to the owners of their nearest cells.
  actors::task<> scatter(ProbeRequest request);
  /// Searches the worker's cells, sends the results to the points' owners, and stores those for its
  /// points.
  actors::task<SearchCount> search(ProbeRequest request);
  std::filesystem::path centroids_file() const { return session_.rank_file("centroids"); }

 private:
  /// Returns the number of groups of the worker's cells, each of which fits into the memory.
  std::uint32_t num_groups(const ProbeRequest& request) const;
  /// Reads the centroids at the first use.
  std::span<const float> centroids();
  /// Adds a block of sent points to the groups of the worker's cells.
  void receive_points(std::span<const std::byte> block, std::uint32_t groups,
                      CellGroupWriter& files) const;
  /// Sends points to their nearest cells.
  actors::task<> send_points(const VectorBlock& points, const ProbeRequest& request,
                             mesh::ActorExchange& exchange);
  /// Searches a group of cells and sends the results.
  actors::task<SearchCount> search_group(std::uint32_t group, PointShuffle& results) const;
  /// Merges the arrived results of a shard with those of an earlier search in fewer cells.
  void store_results(const ProbeRequest& request, std::uint32_t shard, PointShuffle& results);

  WorkerSession& session_;
  const GraphSettings& settings_;
  const GraphInputReader& input_;
  PointCopies& copies_;
  const FoundNeighbours& found_;
  const RecallSample& recall_;
  std::vector<float> centroids_;  ///< Empty until they are read.
};

}  // namespace weft::apps
