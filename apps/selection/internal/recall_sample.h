#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "apps/selection/graph_messages.h"
#include "apps/selection/internal/exhaustive_search.h"
#include "apps/selection/internal/found_neighbours.h"
#include "apps/selection/internal/graph_input_reader.h"
#include "apps/selection/internal/point_copies.h"
#include "apps/selection/internal/worker_session.h"

namespace weft::apps {

/// Draws one point from each of `count` ranges of ids of nearly equal size. Depends on its
/// arguments alone. `purpose` is that of point_hash().
std::vector<PointId> stratified_sample(std::uint64_t points, std::uint64_t count,
                                       std::uint64_t seed, std::uint64_t purpose);

/// Sampled points whose exact neighbours measure the recall of an approximate search. All ranks
/// have the same sample. Actor's thread only.
class RecallSample final {
 public:
  static constexpr std::uint32_t kMostSamples = 1000;

  RecallSample(const WorkerSession& session, const GraphSettings& settings,
               const GraphInputReader& input);

  std::size_t size() const { return ids_.size(); }
  /// Returns the vectors of the sample. Needs the whole input: call it on the holder.
  VectorBlock read() const { return input_.read_vectors(ids_); }
  /// Stores the values of read(), which the holder has sent.
  void store(std::span<const std::byte> values) const;
  std::filesystem::path file() const { return session_.rank_file("samples"); }

  /// Returns, for each sample, the most similar of the worker's points. Call after store().
  std::vector<SampledNeighbours> exact_neighbours(ExhaustiveSearch& search) const;
  /// Returns, for each sample that the worker owns and that is no copy, the result of the search
  /// in `probes` cells.
  std::vector<SampledNeighbours> results(std::uint32_t probes, const FoundNeighbours& found,
                                         PointCopies& copies) const;

 private:
  const WorkerSession& session_;
  const GraphInputReader& input_;
  const std::vector<PointId> ids_;
};

}  // namespace weft::apps
