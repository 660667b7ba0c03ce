#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/system/context.h"
#include "apps/selection/graph_messages.h"
#include "apps/selection/internal/cell_search.h"
#include "apps/selection/internal/exhaustive_search.h"
#include "apps/selection/internal/found_neighbours.h"
#include "apps/selection/internal/graph_input_reader.h"
#include "apps/selection/internal/graph_linker.h"
#include "apps/selection/internal/input_transfer.h"
#include "apps/selection/internal/point_copies.h"
#include "apps/selection/internal/recall_sample.h"
#include "apps/selection/internal/worker_session.h"
#include "apps/selection/selection_messages.h"

namespace weft::apps {

/// Worker that finds the neighbours of its shards' points and searches its cells. One per device
/// process.
///
/// Wire contract of the parts that do the work. Vectors are in the input and in files of `scratch`;
/// only one group of cells or one shard is in memory at a time. Cells, shards and blocks do not
/// depend on the number of workers. After a worker's death, methods can be called again, as
/// SelectionWorker's. Owner's thread only: methods run one at a time.
class GraphWorker final {
 public:
  using Arguments = std::tuple<>;
  explicit GraphWorker(actors::Context& context) : session_(context) {}

  // See DataPlaneEndpoint.
  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup) {
    return session_.port().open(setup);
  }
  void connect(const std::vector<transfer::PeerAddress>& peers) { session_.port().connect(peers); }
  void cancel(const std::string& why) { session_.port().cancel(Error(ErrorCode::kPeerDied, why)); }

  // See InputTransfer.
  InputStatus inspect_input(const GraphInput& input) { return transfer_.inspect(input); }
  actors::task<std::uint64_t> fetch(FetchRequest request) {
    return transfer_.fetch(std::move(request));
  }

  /// Opens the input and creates folders. Call after inspect_input() or fetch(). Throws
  /// Error(kInvalidArgument), which names the file, if the input files do not match.
  GraphShape begin(const GraphSettings& settings);
  /// Returns how many of its files of these phases are missing in `scratch`.
  std::uint64_t missing(bool compared, std::uint32_t cells, std::uint32_t probes) const;
  /// Reads all rows of its shards. See GraphInputReader::validate().
  std::vector<InputShard> validate_rows();

  // See PointCopies.
  actors::task<std::uint64_t> find_copies(std::uint64_t exchange_number) {
    return parts_->copies.find(exchange_number);
  }
  actors::task<> share_copies(std::uint64_t exchange_number) {
    return parts_->copies.share(exchange_number);
  }

  // See ExhaustiveSearch and CellSearch.
  SearchCount search_all() { return parts_->exhaustive.search_all(); }
  actors::task<> train(TrainRequest request) { return parts_->cells.train(request); }
  actors::task<> scatter(ProbeRequest request) { return parts_->cells.scatter(request); }
  actors::task<SearchCount> search(ProbeRequest request) { return parts_->cells.search(request); }

  // See RecallSample.
  std::vector<SampledNeighbours> exact_neighbours_of_samples() {
    return parts_->recall.exact_neighbours(parts_->exhaustive);
  }
  std::vector<SampledNeighbours> sampled_results(std::uint32_t probes) {
    return parts_->recall.results(probes, parts_->found, parts_->copies);
  }

  // See GraphLinker.
  actors::task<std::uint64_t> link(LinkRequest request) { return parts_->linker.link(request); }

  /// Returns the text passed to publish_store() for a store of this digest, if its shards exist;
  /// else "".
  std::string read_manifest(const std::string& digest);
  /// Invalidates the store by removing its index.
  void invalidate_store();
  /// Writes the index after all ranks have linked. `manifest` (JSON) describes the store's origin.
  void publish_store(const std::string& manifest, std::uint64_t directed_edges);
  ResourceUsage resource_usage() { return session_.resource_usage(); }
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

  /// Number of points whose exact neighbours are found to measure the recall.
  static constexpr std::uint32_t kSamples = RecallSample::kMostSamples;
  /// Returns the minimum memory, in bytes, for vectors of `width` numbers in a worker that owns all
  /// shards: the rows being read, or the sample of k-means. `cells` is 0 if all points are
  /// compared.
  static std::uint64_t bytes_at_least(std::uint64_t points, std::uint64_t width,
                                      std::uint32_t shards, std::uint32_t cells);

 private:
  /// Parts of the graph that has begun, by use: each uses only those above it.
  struct Parts {
    GraphInputReader input;
    PointCopies copies;
    FoundNeighbours found;
    ExhaustiveSearch exhaustive;
    RecallSample recall;
    CellSearch cells;
    GraphLinker linker;
    Parts(WorkerSession& session, const GraphSettings& settings,
          const std::filesystem::path& input_copies)
        : input(settings.input, input_copies, settings.count),
          copies(session, settings, input),
          found(session, settings, input),
          exhaustive(session, settings, copies, found),
          recall(session, settings, input),
          cells(session, settings, input, copies, found, recall),
          linker(session, settings, input, copies, found) {}
  };
  std::filesystem::path manifest_file() const;

  WorkerSession session_;
  InputTransfer transfer_{session_.port()};
  GraphSettings settings_;
  std::optional<Parts> parts_;
};

}  // namespace weft::apps
