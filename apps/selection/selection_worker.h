#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/system/context.h"
#include "apps/selection/generated_points.h"
#include "apps/selection/point_store.h"
#include "apps/selection/selection_messages.h"
#include "mesh/exchange/exchange.h"

namespace weft::apps {

/// Worker that owns some shards of the ground set and runs greedy on some partitions. One per
/// device process.
///
/// State of its points is in files of `scratch`; only one shard is in memory at a time. Shards and
/// partitions do not depend on the number of workers. Each method reads the files that earlier ones
/// committed and commits its own result, so that it can be called again after a worker's death.
/// Owner's thread only: methods run one at a time.
class SelectionWorker final {
 public:
  using Arguments = std::tuple<>;
  explicit SelectionWorker(actors::Context& context);

  // See DataPlaneEndpoint.
  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup) { return port_.open(setup); }
  void connect(const std::vector<transfer::PeerAddress>& peers) { port_.connect(peers); }
  void cancel(const std::string& why) { port_.cancel(Error(ErrorCode::kPeerDied, why)); }

  // Generated points: each worker generates its shards; then the index is written.
  std::uint64_t generate(const std::string& folder, const GeneratedPoints& request);
  void write_index(const std::string& folder, const GeneratedPoints& request,
                   std::uint64_t directed_edges);

  /// Returns the facts of a folder's points. 0 points unless the worker's own shards exist.
  GroundSet inspect_store(const std::string& folder) const;
  /// Opens the ground set and creates folders. Call after each connect().
  GroundSet begin(const SelectionSettings& settings);

  /// Returns how many of its files of these phases are missing in `scratch`.
  std::uint64_t missing(bool has_bounds, std::uint32_t round) const;

  // Bounding: initialise_bounds(), then counts and steps.
  void initialise_bounds();
  /// Returns counts by bin of the open points' numbers; for kDraw, of all points' numbers.
  std::vector<std::uint64_t> count(const CountRequest& request);
  /// Decides points by the bounds of the previous step. Returns their number.
  std::uint64_t decide(const BoundRequest& request);
  /// Sends the decisions to the neighbours' owners, which update their bounds. Returns the number
  /// of records.
  actors::task<std::uint64_t> propagate_decisions(BoundRequest request);

  // Rounds.
  /// Sends its points to their partitions. Returns the sizes of the partitions received here.
  actors::task<std::vector<PartitionSize>> send_to_partitions(ShuffleRequest request);
  /// Chooses in the received partitions. Returns how many of its own points stay.
  actors::task<std::uint64_t> choose(ChooseRequest request);

  // Results.
  actors::task<ScoreReport> score(ScoreRequest request);
  /// Returns the chosen points of a shard by ascending id, from the `first`-th on, as many as fit
  /// into a message. Empty after the last one.
  std::vector<ResultPoint> results(std::uint32_t shard, std::uint64_t first);
  std::vector<std::uint32_t> shards() const { return shards_; }
  /// Returns the edges of those points that it owns. The points must fit into a message.
  std::vector<PointNeighbour> neighbours_of(const std::vector<PointId>& points);
  /// Returns, per shard, the SHA-256 of the chosen points' ids, ascending, 4 bytes each.
  std::vector<std::string> digests();
  ResourceUsage resource_usage();
  /// Removes its files in `scratch`, but not the ground set.
  void clean();

  static constexpr auto endpoints = actors::interface<"apps.selection_worker", 1>(
      actors::on<&SelectionWorker::open>("open"), actors::on<&SelectionWorker::connect>("connect"),
      actors::on<&SelectionWorker::cancel>("cancel", actors::urgent),
      actors::on<&SelectionWorker::generate>("generate"),
      actors::on<&SelectionWorker::write_index>("write_index"),
      actors::on<&SelectionWorker::inspect_store>("inspect_store"),
      actors::on<&SelectionWorker::begin>("begin"),
      actors::on<&SelectionWorker::missing>("missing"),
      actors::on<&SelectionWorker::initialise_bounds>("initialise_bounds"),
      actors::on<&SelectionWorker::count>("count"), actors::on<&SelectionWorker::decide>("decide"),
      actors::on<&SelectionWorker::propagate_decisions>("propagate_decisions"),
      actors::on<&SelectionWorker::send_to_partitions>("send_to_partitions"),
      actors::on<&SelectionWorker::choose>("choose"), actors::on<&SelectionWorker::score>("score"),
      actors::on<&SelectionWorker::results>("results"),
      actors::on<&SelectionWorker::shards>("shards"),
      actors::on<&SelectionWorker::neighbours_of>("neighbours_of"),
      actors::on<&SelectionWorker::digests>("digests"),
      actors::on<&SelectionWorker::resource_usage>("resource_usage"),
      actors::on<&SelectionWorker::clean>("clean"));

 private:
  /// Returns, by row, which of a shard's points a round has left in. Round 0 stands for bounding.
  std::vector<bool> remaining_points(std::uint32_t shard, std::uint32_t round) const;
  /// Returns, by row, the points that a round has left in or that bounding has accepted. For round
  /// 0, only the latter.
  std::vector<bool> chosen_of(std::uint32_t shard, std::uint32_t round) const;
  PointBounds bounds_of(std::uint32_t shard) const;
  std::vector<std::uint32_t> read_decisions(std::uint32_t shard, int step) const;
  std::filesystem::path file(const char* what, std::uint64_t number, std::uint64_t shard) const;
  /// Writes state that the next step reads, also after a worker's death. A crash of the machine may
  /// truncate it; then the run must be restarted.
  static void write_state(const std::filesystem::path& path, std::span<const std::byte> content) {
    write_spilled(path, content, SpillWriter::Durability::kProcess);
  }
  std::uint32_t rows_of(std::uint32_t shard) const {
    return static_cast<std::uint32_t>(layout().first_of(shard + 1) - layout().first_of(shard));
  }
  const ShardLayout& layout() const { return store_->layout(); }
  std::uint32_t owner_of_shard(std::uint32_t shard) const {
    return owner_of_shard(shard, layout().shards);
  }
  std::uint32_t owner_of_shard(std::uint32_t shard, std::uint32_t shards) const {
    return static_cast<std::uint32_t>(std::uint64_t{shard} * port_.num_ranks() / shards);
  }
  mesh::ActorExchange::Options exchange(std::uint64_t number) const {
    return {.number = number, .budget = settings_.exchange_budget};
  }

  actors::Context& context_;
  mesh::DataPlaneEndpoint port_;
  SelectionSettings settings_;
  std::filesystem::path state_, spill_;  ///< Folders: kept over epochs, and for this epoch alone.
  std::optional<PointStore> store_;
  std::vector<std::uint32_t> shards_;                  ///< Ascending numbers of its shards.
  std::map<std::uint32_t, PartitionSize> partitions_;  ///< Partitions received in this round.
  std::uint64_t shard_reads_ = 0, bounding_reads_ = 0, records_ = 0;
};

}  // namespace weft::apps
