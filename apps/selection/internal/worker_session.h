#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/system/context.h"
#include "apps/selection/selection_messages.h"
#include "apps/selection/shard_owners.h"
#include "mesh/exchange/exchange.h"

namespace weft::apps {

/// Life cycle that GraphWorker and SelectionWorker share: connection to the other workers, folders,
/// ownership of shards, and use of resources. Member of an actor, which forwards the calls of a
/// DataPlaneConnector to port(). Actor's thread only.
///
///   created -- port().open, connect --> connected -- open_folders, own_shards --> working
///                     ^                                                              |
///                     +------------- port().cancel: another worker died -------------+
///
/// Files of the state folder outlive a worker: phases read the files of earlier phases and commit
/// their own, so that a phase can be repeated after a death.
class WorkerSession final {
 public:
  explicit WorkerSession(actors::Context& context) : port_(context) {}

  mesh::DataPlaneEndpoint& port() { return port_; }
  std::uint32_t rank() const { return port_.rank(); }
  std::uint32_t num_ranks() const { return port_.num_ranks(); }

  /// Creates `scratch`/`state`, which is kept over epochs, and an empty folder `scratch`/`spill`
  /// with the rank in its name for this epoch. Ends the ownership of shards. Throws
  /// Error(kUnavailable) if a folder cannot be created.
  void open_folders(const std::filesystem::path& scratch, std::string_view state,
                    std::string_view spill);
  /// Takes over the rank's shards. `discard_state` removes their files in the state folder.
  void own_shards(const ShardLayout& layout, bool discard_state);
  /// Removes the state folder and the spill folder.
  void remove_folders();

  const ShardLayout& layout() const { return owners_.layout; }
  /// Returns the ascending numbers of the worker's shards.
  const std::vector<std::uint32_t>& shards() const { return shards_; }
  bool owns(std::uint32_t shard) const;
  std::uint32_t owner_of(PointId point) const { return owners_.owner_of(point); }
  std::uint64_t first_of(std::uint32_t shard) const { return layout().first_of(shard); }
  std::uint32_t rows_of(std::uint32_t shard) const {
    return static_cast<std::uint32_t>(first_of(shard + 1) - first_of(shard));
  }

  /// Returns the path of the `number`-th file of a kind with state of a shard.
  std::filesystem::path state_file(std::string_view kind, std::uint64_t number,
                                   std::uint32_t shard) const;
  /// Returns the path of a file with state of this rank.
  std::filesystem::path rank_file(std::string_view kind) const;
  const std::filesystem::path& spill_folder() const { return spill_; }
  /// Writes state that later phases read, also after a worker's death. A crash of the machine may
  /// truncate it; then the run must be restarted.
  static void write_state(const std::filesystem::path& path, std::span<const std::byte> content);

  /// Counters since the actor was created; see ResourceUsage.
  struct Counters {
    std::uint64_t shard_reads = 0, bounding_reads = 0, records = 0;
  };
  Counters& counters() { return counters_; }
  ResourceUsage resource_usage() const;

 private:
  mesh::DataPlaneEndpoint port_;
  std::filesystem::path state_, spill_;
  ShardOwners owners_;
  std::vector<std::uint32_t> shards_;
  Counters counters_;
};

}  // namespace weft::apps
