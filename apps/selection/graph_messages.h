#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/selection/nearest.h"
#include "apps/selection/npy_file.h"
#include "core/codec/codec.h"

namespace weft::apps {

/// A file of a graph's input.
struct InputPart {
  const char* name;
  std::string path;  ///< Empty: there is none.
  NpyFile::Elements elements;
};

/// Where the points of a graph come from: .npy files, as each host sees them that has
/// them. A value.
struct GraphInput {
  std::string vectors;    ///< A row of each point; empty where neighbours are given.
  std::string utilities;  ///< A number of each point; empty: all are alike.
  /// Given neighbours, a row of each point, -1 for none; and how similar each is, from 0 to 1.
  std::string neighbours, similarities;

  bool has_neighbours() const { return !neighbours.empty(); }
  std::vector<InputPart> parts() const;
  static constexpr auto fields = weft::fields(&GraphInput::vectors, &GraphInput::utilities,
                                              &GraphInput::neighbours, &GraphInput::similarities);
};

/// What all workers of a graph are told at its beginning. A value.
struct GraphSettings {
  GraphInput input;
  std::string store;  ///< Folder of the ground set that is made, as each host sees it.
  /// Folder for what must outlive a death, of this run alone; by the same name on each host.
  std::string scratch;
  bool anew = true;          ///< What lies there is of a run before this one.
  std::uint32_t count = 10;  ///< Neighbours of each point, before both sides of an edge have it.
  std::uint16_t floor = 0;   ///< Weaker edges are none; a fraction of 65535.
  std::uint64_t seed = 1;
  std::uint32_t shards = ShardLayout::kShards;      ///< Of the store; no more than points.
  std::uint64_t memory = std::uint64_t{128} << 20;  ///< Bytes for the vectors of some cells.
  std::uint64_t exchange_budget = std::uint64_t{16} << 20;  ///< See ExchangeOptions.

  NeighbourRule rule() const { return {count, floor}; }
  static constexpr auto fields = weft::fields(
      &GraphSettings::input, &GraphSettings::store, &GraphSettings::scratch, &GraphSettings::anew,
      &GraphSettings::count, &GraphSettings::floor, &GraphSettings::seed, &GraphSettings::shards,
      &GraphSettings::memory, &GraphSettings::exchange_budget);
};

/// What a worker's host has of the input. A value.
struct InputSeen {
  std::string missing;               ///< What is not there: why; "": all is.
  std::uint64_t points = 0;          ///< Rows.
  std::vector<std::uint64_t> sizes;  ///< Of the files, in bytes.
  static constexpr auto fields =
      weft::fields(&InputSeen::missing, &InputSeen::points, &InputSeen::sizes);
};

/// Ranks whose hosts do not have the input get the rows of their shards from one that has it.
struct FetchRequest {
  std::uint64_t exchange = 0;
  GraphInput input;
  std::string scratch;  ///< See GraphSettings.
  std::uint32_t shards = 1;
  std::uint64_t exchange_budget = 0;  ///< See GraphSettings.
  std::uint32_t holder = 0;
  std::vector<std::uint32_t> lacking;  ///< Ranks, ascending.
  bool all_rows = false;               ///< For comparing all with all.
  static constexpr auto fields =
      weft::fields(&FetchRequest::exchange, &FetchRequest::input, &FetchRequest::scratch,
                   &FetchRequest::shards, &FetchRequest::exchange_budget, &FetchRequest::holder,
                   &FetchRequest::lacking, &FetchRequest::all_rows);
};

/// What a worker knows of the input when it has opened it.
struct GraphShape {
  std::uint64_t points = 0, dimensions = 0;  ///< 0 dimensions: neighbours are given.
  std::uint32_t shards = 0;
  std::string search;          ///< What compares vectors.
  std::string search_problem;  ///< Why it is slow; else "".
  static constexpr auto fields =
      weft::fields(&GraphShape::points, &GraphShape::dimensions, &GraphShape::shards,
                   &GraphShape::search, &GraphShape::search_problem);
};

/// Of a shard's rows, all of which are as they should be.
struct InputShard {
  std::uint32_t shard = 0;
  std::string digest;
  float least_utility = 0, largest_utility = 0;
  static constexpr auto fields =
      weft::fields(&InputShard::shard, &InputShard::digest, &InputShard::least_utility,
                   &InputShard::largest_utility);
};

/// Comparisons of pairs, and how many queries were compared by the plain loop; see find_nearest().
struct SearchCount {
  std::uint64_t pairs = 0, scans = 0;
  static constexpr auto fields = weft::fields(&SearchCount::pairs, &SearchCount::scans);
};

struct TrainRequest {
  std::uint64_t exchange = 0;
  std::uint32_t cells = 1;
  std::uint32_t holder = 0;  ///< Who has all rows.
  static constexpr auto fields =
      weft::fields(&TrainRequest::exchange, &TrainRequest::cells, &TrainRequest::holder);
};

/// A search of all points in those of their nearest cells that come behind the first `from`, up to
/// `past`.
struct ProbeRequest {
  std::uint64_t exchange = 0;  ///< Of the vectors in scatter(), of what was found in search().
  std::uint32_t from = 0, past = 1;
  static constexpr auto fields =
      weft::fields(&ProbeRequest::exchange, &ProbeRequest::from, &ProbeRequest::past);
};

/// How similar the neighbours of a sampled point are, largest first.
struct SampledNeighbours {
  std::uint32_t sample = 0;
  std::vector<std::uint16_t> similarities;
  static constexpr auto fields =
      weft::fields(&SampledNeighbours::sample, &SampledNeighbours::similarities);
};

struct LinkRequest {
  std::uint64_t exchange = 0;
  std::uint32_t probes = 0;  ///< Which lists: those of so many cells.
  /// What is taken from a utility, and what the rest is multiplied with.
  float least_utility = 0, utility_scale = 1;
  static constexpr auto fields =
      weft::fields(&LinkRequest::exchange, &LinkRequest::probes, &LinkRequest::least_utility,
                   &LinkRequest::utility_scale);
};

}  // namespace weft::apps
