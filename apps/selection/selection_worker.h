#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/system/context.h"
#include "apps/selection/generated_points.h"
#include "apps/selection/internal/partition_rounds.h"
#include "apps/selection/internal/selection_state.h"
#include "apps/selection/internal/shard_bounding.h"
#include "apps/selection/internal/subset_results.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/point_store.h"
#include "apps/selection/selection_messages.h"

namespace weft::apps {

/// Worker that owns some shards of the ground set and runs greedy on some partitions. One per
/// device process.
///
/// Wire contract of the parts that do the work. State of its points is in files of `scratch`; only
/// one shard is in memory at a time. Shards and partitions do not depend on the number of workers.
/// Each method reads the files that earlier ones committed and commits its own result, so that it
/// can be called again after a worker's death. Owner's thread only: methods run one at a time.
class SelectionWorker final {
 public:
  using Arguments = std::tuple<>;
  explicit SelectionWorker(actors::Context& context);

  // See DataPlaneEndpoint.
  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup) {
    return session_.port().open(setup);
  }
  void connect(const std::vector<transfer::PeerAddress>& peers) { session_.port().connect(peers); }
  void cancel(const std::string& why) { session_.port().cancel(Error(ErrorCode::kPeerDied, why)); }

  // Generated points: each worker generates its shards; then the index is written.
  std::uint64_t generate(const std::string& folder, const GeneratedPoints& request);
  void write_index(const std::string& folder, const GeneratedPoints& request,
                   std::uint64_t directed_edges);

  /// Returns the facts of a folder's points. 0 points unless the worker's own shards exist.
  GroundSet inspect_store(const std::string& folder) const;
  /// Opens the ground set and creates folders. Call after each connect().
  GroundSet begin(const SelectionSettings& settings);

  /// Returns how many of its files of these phases are missing in `scratch`. See SelectionState.
  std::uint64_t missing(bool has_bounds, std::uint32_t round) const {
    return state_.num_missing(has_bounds, round);
  }

  // See ShardBounding.
  void initialise_bounds() { parts_->bounding.initialise(); }
  std::vector<std::uint64_t> count(const CountRequest& request) {
    return parts_->bounding.count(request);
  }
  std::uint64_t decide(const BoundRequest& request) { return parts_->bounding.decide(request); }
  actors::task<std::uint64_t> propagate_decisions(BoundRequest request) {
    return parts_->bounding.propagate(request);
  }

  // See PartitionRounds.
  actors::task<std::vector<PartitionSize>> send_to_partitions(ShuffleRequest request) {
    return parts_->rounds.send_points(request);
  }
  actors::task<std::uint64_t> choose(ChooseRequest request) {
    return parts_->rounds.choose(std::move(request));
  }

  // See SubsetResults. Points of neighbours_of() must fit into a message.
  actors::task<ScoreReport> score(ScoreRequest request) { return parts_->results.score(request); }
  std::vector<ResultPoint> results(std::uint32_t shard, std::uint64_t first) {
    return parts_->results.chosen_points(shard, first);
  }
  std::vector<PointNeighbour> neighbours_of(const std::vector<PointId>& points) {
    return parts_->results.neighbours_of(points);
  }
  std::vector<std::string> digests() { return parts_->results.digests(); }

  std::vector<std::uint32_t> shards() const { return session_.shards(); }
  ResourceUsage resource_usage() { return session_.resource_usage(); }
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
  /// Phases of the selection that has begun.
  struct SelectionPhases {
    PointStore store;
    ShardBounding bounding;
    PartitionRounds rounds;
    SubsetResults results;
    SelectionPhases(WorkerSession& session, const SelectionSettings& settings,
                    const SelectionState& state)
        : store(settings.points),
          bounding(session, settings, store, state),
          rounds(session, settings, store, state),
          results(session, settings, store, state) {}
  };

  actors::Context& context_;
  WorkerSession session_;
  SelectionSettings settings_;
  SelectionState state_{session_, settings_};
  std::optional<SelectionPhases> parts_;
};

}  // namespace weft::apps
