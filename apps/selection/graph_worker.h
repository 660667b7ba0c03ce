#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/system/context.h"
#include "apps/selection/graph_messages.h"
#include "apps/selection/npy_file.h"
#include "apps/selection/selection_messages.h"
#include "mesh/exchange/exchange.h"

namespace weft::apps {

/// Finds the neighbours of some shards' points, and searches in some cells: one per device process.
///
/// A point is a base in the cell of its nearest centroid, and a query in its nearest w cells; what
/// is found goes back to its owner. Vectors lie in the input and in files of `scratch`, but for
/// those of one group of cells, or of one shard, at a time. Cells, shards and blocks are numbered
/// without regard to workers. Methods can be called again after a death, as SelectionWorker's.
/// Owner's thread only: methods run one at a time.
class GraphWorker final {
 public:
  using Arguments = std::tuple<>;
  /// Of so many points neighbours are also found exactly, to tell the recall.
  static constexpr std::uint32_t kSamples = 1000;

  explicit GraphWorker(actors::Context& context);

  // See ExchangePort.
  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup) { return port_.open(setup); }
  void connect(const std::vector<transfer::PeerAddress>& peers) { port_.connect(peers); }
  void cancel(const std::string& why) { port_.cancel(Error(ErrorCode::kPeerDied, why)); }

  /// Comes after connect(), and again after each: what this host has of the input.
  InputSeen look(const GraphInput& input);
  /// By all ranks, where some lack it: their rows, checked by digests, until the next look().
  actors::task<std::uint64_t> fetch(FetchRequest request);
  /// Comes next. Throws Error(kInvalidArgument) naming the file
  /// for input that does not fit together.
  GraphShape begin(const GraphSettings& settings);
  /// Number of its files of these phases that an earlier run does not have in `scratch` any more.
  std::uint64_t missing(bool compared, std::uint32_t cells, std::uint32_t probes) const;
  /// Reads all rows of its shards. Throws Error(kInvalidArgument) naming file and row for what no
  /// graph can be made of.
  std::vector<InputShard> inspect();

  /// Finds which points have the vector of another one: by all ranks, each for a part of all
  /// vectors. Returns how many it has found.
  actors::task<std::uint64_t> find_copies(std::uint64_t exchange_number);
  /// All ranks learn what each has found.
  actors::task<> share_copies(std::uint64_t exchange_number);

  /// Compares its points with all.
  SearchCount search_all();
  /// Cells are made, and points drawn whose neighbours tell the recall: by one rank for all.
  actors::task<> train(TrainRequest request);
  /// Points go to the owners of their cells.
  actors::task<> scatter(ProbeRequest request);
  /// Searches in its cells, and takes what others have found for its points.
  actors::task<SearchCount> search(ProbeRequest request);
  /// Of all samples, their most similar among its points.
  std::vector<SampledNeighbours> nearest_of_samples();
  /// Of those samples that are its points, what search() up to so many cells has found.
  std::vector<SampledNeighbours> found(std::uint32_t probes);

  /// An edge is there if either end has found it; given neighbours must be there from both. Writes
  /// its shards of the store; how many directed edges these have.
  actors::task<std::uint64_t> link(LinkRequest request);
  /// What finish() said of a store of this digest, if its shards are there; else "".
  std::string made(const std::string& digest);
  /// The store is none from now on.
  void unmake();
  /// All ranks have linked: the store is there, and was made of what `made` says (JSON).
  void finish(const std::string& made, std::uint64_t directed_edges);
  WorkerUse use();
  /// Removes what is left in `scratch`.
  void clean();

  static constexpr auto endpoints = actors::interface<"apps.graph_worker", 1>(
      actors::on<&GraphWorker::open>("open"), actors::on<&GraphWorker::connect>("connect"),
      actors::on<&GraphWorker::cancel>("cancel", actors::urgent),
      actors::on<&GraphWorker::look>("look"), actors::on<&GraphWorker::fetch>("fetch"),
      actors::on<&GraphWorker::begin>("begin"), actors::on<&GraphWorker::missing>("missing"),
      actors::on<&GraphWorker::inspect>("inspect"),
      actors::on<&GraphWorker::find_copies>("find_copies"),
      actors::on<&GraphWorker::share_copies>("share_copies"),
      actors::on<&GraphWorker::search_all>("search_all"), actors::on<&GraphWorker::train>("train"),
      actors::on<&GraphWorker::scatter>("scatter"), actors::on<&GraphWorker::search>("search"),
      actors::on<&GraphWorker::nearest_of_samples>("nearest_of_samples"),
      actors::on<&GraphWorker::found>("found"), actors::on<&GraphWorker::link>("link"),
      actors::on<&GraphWorker::made>("made"), actors::on<&GraphWorker::unmake>("unmake"),
      actors::on<&GraphWorker::finish>("finish"), actors::on<&GraphWorker::use>("use"),
      actors::on<&GraphWorker::clean>("clean"));

  /// What a worker that has all shards holds at least at a time, in bytes, of so many vectors of
  /// `width` numbers, found by cells (0: all are compared): rows that are read, k-means' sample.
  static std::uint64_t bytes_at_least(std::uint64_t points, std::uint64_t width,
                                      std::uint32_t shards, std::uint32_t cells);

 private:
  /// A point that is a copy, and the point with the same vector that it is linked to.
  struct CopyOf {
    PointId copy = 0, of = 0;
    friend auto operator<=>(const CopyOf&, const CopyOf&) = default;
  };
  /// Of all points, by ascending copy; read when it is needed.
  const std::vector<CopyOf>& known_copies();
  bool is_copy(PointId id);
  /// The vectors of those rows that are no copies.
  VectorBlock read_distinct(std::uint64_t first, std::uint64_t past);
  /// Gives each copy of the shard its one neighbour.
  void link_copies(std::uint32_t shard, NeighbourLists& lists);

  std::filesystem::path copies(const std::string& scratch) const;
  VectorBlock read_vectors(std::uint64_t first, std::uint64_t past) const;
  /// Of `points`, one drawn from each of `count` ranges of ids that are as equal as can be.
  PointId sampled(std::uint64_t index, std::uint64_t count, std::uint64_t purpose) const;
  VectorBlock read_sample(std::uint64_t count, std::uint64_t purpose) const;
  std::uint32_t num_samples() const;
  VectorBlock read_recall_sample() const;
  static std::vector<float> read_floats(const std::filesystem::path& path);
  std::uint32_t num_groups(const ProbeRequest& request) const;
  std::filesystem::path group_file(std::uint32_t group) const;
  std::filesystem::path made_file() const;

  /// Throws Error(kUnavailable) if a file of the input was written since begin().
  void check_inputs() const;
  /// Of all rows of a shard, as search() or the input has them; by row, in any order.
  NeighbourLists lists_of(std::uint32_t shard, std::uint32_t probes) const;
  NeighbourLists given_lists(std::uint32_t shard) const;
  void write_lists(std::uint32_t shard, std::uint32_t probes, const NeighbourLists& lists) const;
  void check_both_sides(std::uint32_t shard, const NeighbourLists& own,
                        const NeighbourLists& of_others) const;
  /// Adds what is in the shard's rows to `digest`, and checks it.
  void inspect_rows(std::uint64_t first, std::uint64_t past, std::string& digest) const;

  std::filesystem::path state_file(const char* what, std::uint64_t number,
                                   std::uint64_t shard) const;
  std::uint64_t first_of(std::uint32_t shard) const { return layout_.first_of(shard); }
  std::uint32_t rows_of(std::uint32_t shard) const {
    return static_cast<std::uint32_t>(first_of(shard + 1) - first_of(shard));
  }
  std::uint32_t owner_of(PointId id) const {
    return static_cast<std::uint32_t>(std::uint64_t{layout_.shard_of(id)} * port_.num_ranks() /
                                      layout_.shards);
  }
  mesh::Exchange::Options exchange(std::uint64_t number) const {
    return {.number = number, .budget = settings_.exchange_budget};
  }

  mesh::ExchangePort port_;
  GraphSettings settings_;
  std::filesystem::path state_, spill_;  ///< Folders: for all epochs, for this one.
  ShardLayout layout_;
  std::vector<std::uint32_t> shards_;  ///< Its own, ascending.
  std::optional<NpyFile> vectors_, utilities_, neighbours_, similarities_;
  /// Files of the input, and when each was written last.
  std::vector<std::pair<std::filesystem::path, std::filesystem::file_time_type>> inputs_;
  bool has_copies_ = false;  ///< Its host lacks the input.
  std::size_t dimensions_ = 0;
  std::vector<float> centroids_;  ///< Read when they are needed.
  std::optional<std::vector<CopyOf>> copies_;
  std::vector<bool> is_copy_;  ///< By point, once copies_ is read.
};

}  // namespace weft::apps
