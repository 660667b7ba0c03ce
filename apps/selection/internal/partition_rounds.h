#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "actors/call/task.h"
#include "apps/selection/internal/point_shuffle.h"
#include "apps/selection/internal/selection_state.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/point_store.h"
#include "apps/selection/rounds.h"
#include "apps/selection/selection_messages.h"

namespace weft::apps {

/// Worker's part of the rounds (Böther et al., section 5): it sends its points to partitions, and
/// chooses in the partitions that it has received. Partition p is chosen by rank p modulo the
/// number of ranks. Received partitions are files of the session's spill folder. Actor's thread
/// only.
class PartitionRounds final {
 public:
  PartitionRounds(WorkerSession& session, const SelectionSettings& settings,
                  const PointStore& store, const SelectionState& state)
      : session_(session), settings_(settings), store_(store), state_(state) {}

  /// Sends the worker's points to their partitions. Returns the sizes of the partitions received
  /// here.
  actors::task<std::vector<PartitionSize>> send_points(ShuffleRequest request);
  /// Chooses in the received partitions. Returns how many of the worker's own points stay.
  actors::task<std::uint64_t> choose(ChooseRequest request);

 private:
  std::filesystem::path partition_file(std::uint32_t partition) const;
  actors::task<> send_shard(const PartitionAssigner& partition_of, std::uint32_t round,
                            std::uint32_t shard, mesh::ActorExchange& exchange);
  /// Chooses in one partition and sends the chosen points to their owners.
  actors::task<> choose_in(const PartitionSize& partition, std::uint64_t quota,
                           PointShuffle& chosen);
  /// Stores which points of a shard stay, and their gains after the last round. Returns their
  /// number.
  std::uint64_t store_chosen(const ChooseRequest& request, std::uint32_t shard,
                             PointShuffle& chosen) const;

  WorkerSession& session_;
  const SelectionSettings& settings_;
  const PointStore& store_;
  const SelectionState& state_;
  std::map<std::uint32_t, PartitionSize> partitions_;  ///< Partitions received in this round.
};

}  // namespace weft::apps
