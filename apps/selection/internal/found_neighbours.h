#pragma once

#include <cstdint>

#include "apps/selection/internal/graph_input_reader.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/neighbours.h"

namespace weft::apps {

/// Neighbours of a worker's points before edges are made symmetric: files that a search writes, a
/// file a shard and a number of probes. If the input gives neighbours, they are read from it
/// instead. Actor's thread only.
class FoundNeighbours final {
 public:
  FoundNeighbours(const WorkerSession& session, const GraphSettings& settings,
                  const GraphInputReader& input)
      : session_(session), settings_(settings), input_(input) {}

  /// Writes the lists of a shard's points, found with `probes` cells; 0 if all were compared.
  void write(std::uint32_t shard, std::uint32_t probes, const NeighbourLists& lists) const;
  /// Returns the lists of a shard's points, each in any order.
  NeighbourLists read(std::uint32_t shard, std::uint32_t probes) const;
  std::filesystem::path file(std::uint32_t shard, std::uint32_t probes) const {
    return session_.state_file("lists", probes, shard);
  }

 private:
  const WorkerSession& session_;
  const GraphSettings& settings_;
  const GraphInputReader& input_;
};

}  // namespace weft::apps
