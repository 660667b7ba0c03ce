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

/// Worker that finds the neighbours of its shards' points and searches its cells. One per device
/// process.
///
/// A point is a base in the cell of its nearest centroid, and a query in its nearest w cells.
/// Results are sent to the point's owner. Vectors are in the input and in files of `scratch`; only
/// one group of cells or one shard is in memory at a time. Cells, shards and blocks do not depend
/// on the number of workers. After a worker's death, methods can be called again, as
/// SelectionWorker's. Owner's thread only: methods run one at a time.
class GraphWorker final {
 public:
  using Arguments = std::tuple<>;
  /// Number of points whose exact neighbours are found to measure the recall.
  static constexpr std::uint32_t kSamples = 1000;

  explicit GraphWorker(actors::Context& context);

  // See DataPlaneEndpoint.
  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup) { return port_.open(setup); }
  void connect(const std::vector<transfer::PeerAddress>& peers) { port_.connect(peers); }
  void cancel(const std::string& why) { port_.cancel(Error(ErrorCode::kPeerDied, why)); }

  /// Reports the input on this host. Call first after each connect().
  InputStatus inspect_input(const GraphInput& input);
  /// Sends rows from the holder to the ranks that lack them, checked by digests. Called on all
  /// ranks. The rows are valid until the next inspect_input(). Returns the received bytes.
  actors::task<std::uint64_t> fetch(FetchRequest request);
  /// Opens the input and creates folders. Call after inspect_input() or fetch(). Throws
  /// Error(kInvalidArgument), which names the file, if the input files do not match.
  GraphShape begin(const GraphSettings& settings);
  /// Returns how many of its files of these phases are missing in `scratch`.
  std::uint64_t missing(bool compared, std::uint32_t cells, std::uint32_t probes) const;
  /// Reads all rows of its shards. Throws Error(kInvalidArgument), which names file and row, for
  /// invalid values.
  std::vector<InputShard> validate_rows();

  /// Finds points that have another point's vector. Called on all ranks; each compares a part of
  /// the vectors. Returns the number of copies that it found.
  actors::task<std::uint64_t> find_copies(std::uint64_t exchange_number);
  /// Sends the found copies to all ranks.
  actors::task<> share_copies(std::uint64_t exchange_number);

  /// Compares its points with all points.
  SearchCount search_all();
  /// Trains the cells and reads the points that measure the recall: on the holder, for all ranks.
  actors::task<> train(TrainRequest request);
  /// Sends its points to the owners of their nearest cells.
  actors::task<> scatter(ProbeRequest request);
  /// Searches its cells, sends the results to the points' owners, and stores those for its points.
  actors::task<SearchCount> search(ProbeRequest request);
  /// Returns, for each sample, the most similar of its points.
  std::vector<SampledNeighbours> exact_neighbours_of_samples();
  /// Returns the search() results of those samples that it owns, after `probes` cells.
  std::vector<SampledNeighbours> sampled_results(std::uint32_t probes);

  /// Makes edges symmetric and writes its shards of the store. An edge exists if either end has
  /// found it; given neighbours must be listed by both. Returns the number of directed edges of its
  /// shards.
  actors::task<std::uint64_t> link(LinkRequest request);
  /// Returns the text passed to publish_store() for a store of this digest, if its shards exist;
  /// else "".
  std::string read_manifest(const std::string& digest);
  /// Invalidates the store by removing its index.
  void invalidate_store();
  /// Writes the index after all ranks have linked. `manifest` (JSON) describes the store's origin.
  void publish_store(const std::string& manifest, std::uint64_t directed_edges);
  ResourceUsage resource_usage();
  /// Removes its files in `scratch`.
  void clean();

  static constexpr auto endpoints = actors::interface<"apps.graph_worker", 1>(
      actors::on<&GraphWorker::open>("open"), actors::on<&GraphWorker::connect>("connect"),
      actors::on<&GraphWorker::cancel>("cancel", actors::urgent),
      actors::on<&GraphWorker::inspect_input>("inspect_input"),
      actors::on<&GraphWorker::fetch>("fetch"), actors::on<&GraphWorker::begin>("begin"),
      actors::on<&GraphWorker::missing>("missing"),
      actors::on<&GraphWorker::validate_rows>("validate_rows"),
      actors::on<&GraphWorker::find_copies>("find_copies"),
      actors::on<&GraphWorker::share_copies>("share_copies"),
      actors::on<&GraphWorker::search_all>("search_all"), actors::on<&GraphWorker::train>("train"),
      actors::on<&GraphWorker::scatter>("scatter"), actors::on<&GraphWorker::search>("search"),
      actors::on<&GraphWorker::exact_neighbours_of_samples>("exact_neighbours_of_samples"),
      actors::on<&GraphWorker::sampled_results>("sampled_results"),
      actors::on<&GraphWorker::link>("link"),
      actors::on<&GraphWorker::read_manifest>("read_manifest"),
      actors::on<&GraphWorker::invalidate_store>("invalidate_store"),
      actors::on<&GraphWorker::publish_store>("publish_store"),
      actors::on<&GraphWorker::resource_usage>("resource_usage"),
      actors::on<&GraphWorker::clean>("clean"));

  /// Returns the minimum memory, in bytes, for vectors of `width` numbers in a worker that owns all
  /// shards: the rows being read, or the sample of k-means. `cells` is 0 if all points are
  /// compared.
  static std::uint64_t bytes_at_least(std::uint64_t points, std::uint64_t width,
                                      std::uint32_t shards, std::uint32_t cells);

 private:
  /// Copy, and the point of the same vector that it is linked to.
  struct CopyOf {
    PointId copy = 0, of = 0;
    friend auto operator<=>(const CopyOf&, const CopyOf&) = default;
  };
  /// Returns the copies among all points by ascending `copy`, read at the first call.
  const std::vector<CopyOf>& known_copies();
  bool is_copy(PointId id);
  /// Returns the vectors of the rows that are not copies.
  VectorBlock read_distinct(std::uint64_t first, std::uint64_t past);
  /// Gives each copy in the shard its one neighbour.
  void link_copies(std::uint32_t shard, NeighbourLists& lists);

  std::filesystem::path copies(const std::string& scratch) const;
  VectorBlock read_vectors(std::uint64_t first, std::uint64_t past) const;
  /// Returns the point drawn from range `index` of `count` ranges of ids of nearly equal size.
  PointId sampled(std::uint64_t index, std::uint64_t count, std::uint64_t purpose) const;
  VectorBlock read_sample(std::uint64_t count, std::uint64_t purpose) const;
  std::uint32_t num_samples() const;
  VectorBlock read_recall_sample() const;
  static std::vector<float> read_floats(const std::filesystem::path& path);
  std::uint32_t num_groups(const ProbeRequest& request) const;
  std::filesystem::path group_file(std::uint32_t group) const;
  std::filesystem::path manifest_file() const;

  /// Throws Error(kUnavailable) if a file of the input was modified since begin().
  void check_inputs() const;
  /// Returns the neighbours of all rows of a shard, from search() or the input, in any order per
  /// row.
  NeighbourLists lists_of(std::uint32_t shard, std::uint32_t probes) const;
  NeighbourLists given_lists(std::uint32_t shard) const;
  void write_lists(std::uint32_t shard, std::uint32_t probes, const NeighbourLists& lists) const;
  void check_symmetry(std::uint32_t shard, const NeighbourLists& own,
                      const NeighbourLists& of_others) const;
  /// Checks these rows and adds their content to `digest`.
  void validate_range(std::uint64_t first, std::uint64_t past, std::string& digest) const;

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
  mesh::ActorExchange::Options exchange(std::uint64_t number) const {
    return {.number = number, .budget = settings_.exchange_budget};
  }

  mesh::DataPlaneEndpoint port_;
  GraphSettings settings_;
  std::filesystem::path state_, spill_;  ///< Folders: kept over epochs, and for this epoch alone.
  ShardLayout layout_;
  std::vector<std::uint32_t> shards_;  ///< Ascending numbers of its shards.
  std::optional<NpyFile> vectors_, utilities_, neighbours_, similarities_;
  /// Files of the input and their modification times.
  std::vector<std::pair<std::filesystem::path, std::filesystem::file_time_type>> inputs_;
  bool has_copies_ = false;  ///< True if its host lacks the input and it reads copies.
  std::size_t dimensions_ = 0;
  std::vector<float> centroids_;  ///< Read at the first use.
  std::optional<std::vector<CopyOf>> copies_;
  std::vector<bool> is_copy_;  ///< Indexed by point. Empty until copies_ is read.
};

}  // namespace weft::apps
