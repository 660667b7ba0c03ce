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

/// Owner of some shards of the ground set, and greedy on some partitions at a time: one per device
/// process.
///
/// What it knows of its points lies in files of `scratch`, but for one shard at a time; shards and
/// partitions are numbered without regard to workers. A method reads what the one before has
/// committed, and commits what it finds, so that it can be called again after a death. Owner's
/// thread only: methods run one at a time.
class SelectionWorker final {
 public:
  using Arguments = std::tuple<>;
  explicit SelectionWorker(actors::Context& context);

  // See ExchangePort.
  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup) { return port_.open(setup); }
  void connect(const std::vector<transfer::PeerAddress>& peers) { port_.connect(peers); }
  void cancel(const std::string& why) { port_.cancel(Error(ErrorCode::kPeerDied, why)); }

  // Points that are generated: each worker makes its shards, and when all have, the index.
  std::uint64_t generate(const std::string& folder, const GeneratedPoints& request);
  void write_index(const std::string& folder, const GeneratedPoints& request,
                   std::uint64_t directed_edges);

  /// Of a folder's points: none (0), unless the worker's own shards are there.
  GroundSet there(const std::string& folder) const;
  /// Comes after connect(), and again after each.
  GroundSet begin(const SelectionSettings& settings);

  /// Number of its files of these phases that an earlier run does not have in `scratch` any more.
  std::uint64_t missing(bool has_bounds, std::uint32_t round) const;

  // Bounding. first_bounds(), then counts and steps.
  void first_bounds();
  /// By bin, of the open points; kDraw: of all points.
  std::vector<std::uint64_t> count(const CountRequest& request);
  /// Decides, by the bounds of the step before; how many points that was.
  std::uint64_t decide(const BoundRequest& request);
  /// Tells the neighbours of those, wherever they are; how many records that took.
  actors::task<std::uint64_t> spread(BoundRequest request);

  // Rounds.
  /// Of the partitions that came here.
  actors::task<std::vector<PartitionSize>> deal(DealRequest request);
  /// How many of its own points stay.
  actors::task<std::uint64_t> choose(ChooseRequest request);

  // Results.
  actors::task<ScoreReport> score(ScoreRequest request);
  /// The chosen points of a shard in the order of their ids, from the `first` one on; at most a
  /// message's worth. None: there are no more.
  std::vector<ResultPoint> results(std::uint32_t shard, std::uint64_t first);
  std::vector<std::uint32_t> shards() const { return shards_; }
  /// Of those of these points that are its own. A message's worth of points.
  std::vector<PointNeighbour> neighbours_of(const std::vector<PointId>& points);
  /// SHA-256 of the ids of each of its shards' chosen points, 4 bytes each, ascending.
  std::vector<std::string> digests();
  WorkerUse use();
  /// Removes what is left in `scratch`, but for the ground set.
  void clean();

  static constexpr auto endpoints = actors::interface<"apps.selection_worker", 1>(
      actors::on<&SelectionWorker::open>("open"), actors::on<&SelectionWorker::connect>("connect"),
      actors::on<&SelectionWorker::cancel>("cancel", actors::urgent),
      actors::on<&SelectionWorker::generate>("generate"),
      actors::on<&SelectionWorker::write_index>("write_index"),
      actors::on<&SelectionWorker::there>("there"), actors::on<&SelectionWorker::begin>("begin"),
      actors::on<&SelectionWorker::missing>("missing"),
      actors::on<&SelectionWorker::first_bounds>("first_bounds"),
      actors::on<&SelectionWorker::count>("count"), actors::on<&SelectionWorker::decide>("decide"),
      actors::on<&SelectionWorker::spread>("spread"), actors::on<&SelectionWorker::deal>("deal"),
      actors::on<&SelectionWorker::choose>("choose"), actors::on<&SelectionWorker::score>("score"),
      actors::on<&SelectionWorker::results>("results"),
      actors::on<&SelectionWorker::shards>("shards"),
      actors::on<&SelectionWorker::neighbours_of>("neighbours_of"),
      actors::on<&SelectionWorker::digests>("digests"), actors::on<&SelectionWorker::use>("use"),
      actors::on<&SelectionWorker::clean>("clean"));

 private:
  /// Which of a shard's points are still in, as a round has left them; by row. Round 0: bounding
  /// has.
  std::vector<bool> alive(std::uint32_t shard, std::uint32_t round) const;
  /// Those, and what bounding has accepted. Round 0: that alone.
  std::vector<bool> chosen_of(std::uint32_t shard, std::uint32_t round) const;
  PointBounds bounds_of(std::uint32_t shard) const;
  std::vector<std::uint32_t> decided_in(std::uint32_t shard, int step) const;
  std::filesystem::path file(const char* what, std::uint64_t number, std::uint64_t shard) const;
  /// What the next step reads, also after a death. After a crash of the machine it may be cut; then
  /// the run begins anew.
  static void write_state(const std::filesystem::path& path, std::span<const std::byte> content) {
    write_spilled(path, content, SpillWriter::Outlives::kProcess);
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
  mesh::Exchange::Options exchange(std::uint64_t number) const {
    return {.number = number, .budget = settings_.exchange_budget};
  }

  actors::Context& context_;
  mesh::ExchangePort port_;
  SelectionSettings settings_;
  std::filesystem::path state_, spill_;  ///< Folders: for all epochs, for this one.
  std::optional<PointStore> store_;
  std::vector<std::uint32_t> shards_;                  ///< Its own, ascending.
  std::map<std::uint32_t, PartitionSize> partitions_;  ///< Dealt here in this round.
  std::uint64_t shard_reads_ = 0, bounding_reads_ = 0, records_ = 0;
};

}  // namespace weft::apps
