#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/selection/nearest.h"
#include "apps/selection/npy_file.h"
#include "core/codec/codec.h"

namespace weft::apps {

/// File of a graph's input.
struct GraphInputFile {
  const char* name;
  std::string path;  ///< Empty if the input lacks it.
  NpyFile::Elements elements;
};

/// .npy files from which a graph is built, with their paths on hosts that have them. A value.
struct GraphInput {
  std::string vectors;    ///< Row per point. Empty if neighbours are given.
  std::string utilities;  ///< Number per point. Empty if all are equal.
  /// Given neighbours, a row per point with -1 for none, and their similarities between 0 and 1.
  std::string neighbours, similarities;

  bool has_neighbours() const { return !neighbours.empty(); }
  std::vector<GraphInputFile> parts() const;
  static constexpr auto fields = weft::fields(&GraphInput::vectors, &GraphInput::utilities,
                                              &GraphInput::neighbours, &GraphInput::similarities);
};

/// Options that all workers of a graph receive at its start. A value.
struct GraphSettings {
  GraphInput input;
  std::string store;  ///< Folder of the resulting ground set, as each host sees it.
  /// Folder for state that outlives a worker. Used by this run alone, at the same path on each
  /// host.
  std::string scratch;
  bool discard_state = true;  ///< True to delete the state of an earlier run.
  std::uint32_t count = 10;   ///< Neighbours of each point before edges are made symmetric.
  std::uint16_t floor = 0;    ///< Minimum similarity of an edge, as a fraction of 65535.
  std::uint64_t seed = 1;
  std::uint32_t shards = ShardLayout::kShards;      ///< Shards of the store. At most the number of
                                                    ///< points.
  std::uint64_t memory = std::uint64_t{128} << 20;  ///< Bytes for the vectors of cells.
  std::uint64_t exchange_budget = std::uint64_t{16} << 20;  ///< Bytes; see ExchangeOptions.

  NeighbourRule rule() const { return {count, floor}; }
  static constexpr auto fields =
      weft::fields(&GraphSettings::input, &GraphSettings::store, &GraphSettings::scratch,
                   &GraphSettings::discard_state, &GraphSettings::count, &GraphSettings::floor,
                   &GraphSettings::seed, &GraphSettings::shards, &GraphSettings::memory,
                   &GraphSettings::exchange_budget);
};

/// State of the input on a worker's host. A value.
struct InputStatus {
  std::string missing;               ///< Error for a missing file. "" if all files exist.
  std::uint64_t points = 0;          ///< Number of rows.
  std::vector<std::uint64_t> sizes;  ///< Sizes of the files in bytes.
  static constexpr auto fields =
      weft::fields(&InputStatus::missing, &InputStatus::points, &InputStatus::sizes);
};

/// Transfer of the rows of their shards to ranks whose hosts lack the input.
struct FetchRequest {
  std::uint64_t exchange = 0;
  GraphInput input;
  std::string scratch;  ///< See GraphSettings.
  std::uint32_t shards = 1;
  std::uint64_t exchange_budget = 0;  ///< See GraphSettings.
  std::uint32_t holder = 0;
  std::vector<std::uint32_t> lacking;  ///< Ascending ranks.
  bool all_rows = false;               ///< True if all points will be compared.
  static constexpr auto fields =
      weft::fields(&FetchRequest::exchange, &FetchRequest::input, &FetchRequest::scratch,
                   &FetchRequest::shards, &FetchRequest::exchange_budget, &FetchRequest::holder,
                   &FetchRequest::lacking, &FetchRequest::all_rows);
};

/// Facts about the input after a worker has opened it.
struct GraphShape {
  std::uint64_t points = 0, dimensions = 0;  ///< 0 dimensions if neighbours are given.
  std::uint32_t shards = 0;
  std::string search;         ///< Name of the VectorSearch.
  std::string verify_search;  ///< Reason for a slow search, else "".
  static constexpr auto fields =
      weft::fields(&GraphShape::points, &GraphShape::dimensions, &GraphShape::shards,
                   &GraphShape::search, &GraphShape::verify_search);
};

/// Result of a successful inspection of a shard's rows.
struct InputShard {
  std::uint32_t shard = 0;
  std::string digest;
  float least_utility = 0, largest_utility = 0;
  static constexpr auto fields =
      weft::fields(&InputShard::shard, &InputShard::digest, &InputShard::least_utility,
                   &InputShard::largest_utility);
};

/// Number of compared pairs, and of queries that the plain loop compared; see find_nearest().
struct SearchCount {
  std::uint64_t pairs = 0, scans = 0;
  static constexpr auto fields = weft::fields(&SearchCount::pairs, &SearchCount::scans);
};

struct TrainRequest {
  std::uint64_t exchange = 0;
  std::uint32_t cells = 1;
  std::uint32_t holder = 0;  ///< Rank that has all rows.
  static constexpr auto fields =
      weft::fields(&TrainRequest::exchange, &TrainRequest::cells, &TrainRequest::holder);
};

/// Search of each point in its nearest cells, from the `from`-th to before the `past`-th.
struct ProbeRequest {
  std::uint64_t exchange = 0;  ///< Sends vectors in scatter(), results in search().
  std::uint32_t from = 0, past = 1;
  static constexpr auto fields =
      weft::fields(&ProbeRequest::exchange, &ProbeRequest::from, &ProbeRequest::past);
};

/// Similarities of a sampled point's neighbours, in descending order.
struct SampledNeighbours {
  std::uint32_t sample = 0;
  std::vector<std::uint16_t> similarities;
  static constexpr auto fields =
      weft::fields(&SampledNeighbours::sample, &SampledNeighbours::similarities);
};

struct LinkRequest {
  std::uint64_t exchange = 0;
  std::uint32_t probes = 0;  ///< Probes of the search whose lists are linked.
  /// Offset to subtract from each utility, and factor to multiply the difference with.
  float least_utility = 0, utility_scale = 1;
  static constexpr auto fields =
      weft::fields(&LinkRequest::exchange, &LinkRequest::probes, &LinkRequest::least_utility,
                   &LinkRequest::utility_scale);
};

}  // namespace weft::apps
