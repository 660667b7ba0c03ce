#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/call/task.h"
#include "apps/selection/graph_messages.h"
#include "apps/selection/internal/graph_input_reader.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/neighbours.h"

namespace weft::apps {

/// Copies: points whose vectors equal those of other points, number by number. A copy is not
/// searched, and is a neighbour of equal points only. Otherwise, the k nearest neighbours of a
/// point with more than k copies would all be copies, and the search library would find all of
/// them equally near.
///
/// Equal points are ordered by utility, then by PointRank's hash, then by id. The first one is
/// searched. Each other one has one edge, of similarity 1, to an equal point before it. These edges
/// form a tree in which each point has at most 8 children. Actor's thread only.
class PointCopies final {
 public:
  PointCopies(WorkerSession& session, const GraphSettings& settings, const GraphInputReader& input)
      : session_(session), settings_(settings), input_(input) {}

  /// Finds copies. Called on all ranks; each compares a part of the vectors. Returns the number of
  /// copies that this rank has found.
  actors::task<std::uint64_t> find(std::uint64_t exchange_number);
  /// Sends the found copies to all ranks, which store them.
  actors::task<> share(std::uint64_t exchange_number);

  bool contains(PointId id) { return !known().empty() && is_copy_[id]; }
  /// Returns the vectors of consecutive rows that are not copies.
  VectorBlock read_distinct(std::uint64_t first, std::uint64_t past);
  /// Gives each copy in the shard its one neighbour.
  void link(std::uint32_t shard, NeighbourLists& lists);

 private:
  /// Copy, and the point of the same vector that it is linked to.
  struct Copy {
    PointId id = 0, of = 0;
    friend auto operator<=>(const Copy&, const Copy&) = default;
  };
  /// Returns the copies among all points by ascending id, read at the first call.
  const std::vector<Copy>& known();

  WorkerSession& session_;
  const GraphSettings& settings_;
  const GraphInputReader& input_;
  std::optional<std::vector<Copy>> known_;
  std::vector<bool> is_copy_;  ///< Indexed by point. Empty until known_ is read.
};

}  // namespace weft::apps
