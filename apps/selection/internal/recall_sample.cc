#include "apps/selection/internal/recall_sample.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

/// Purpose of point_hash(), used for nothing else.
constexpr std::uint64_t kRecallSample = ~std::uint64_t{1};

std::vector<std::uint16_t> similarities_of(const std::vector<Neighbour>& list) {
  std::vector<std::uint16_t> similarities;
  for (const Neighbour& neighbour : list) similarities.push_back(neighbour.similarity);
  std::ranges::sort(similarities, std::greater());
  return similarities;
}

}  // namespace

std::vector<PointId> stratified_sample(std::uint64_t points, std::uint64_t count,
                                       std::uint64_t seed, std::uint64_t purpose) {
  const ShardLayout ranges{points, static_cast<std::uint32_t>(count)};
  std::vector<PointId> sample;
  sample.reserve(count);
  for (std::uint32_t range = 0; range < ranges.shards; ++range) {
    const std::uint64_t first = ranges.first_of(range), past = ranges.first_of(range + 1);
    sample.push_back(
        static_cast<PointId>(first + draw_below(static_cast<std::uint32_t>(past - first),
                                                point_hash(range, seed, purpose))));
  }
  return sample;
}

RecallSample::RecallSample(const WorkerSession& session, const GraphSettings& settings,
                           const GraphInputReader& input)
    : session_(session),
      input_(input),
      ids_(stratified_sample(input.points(), std::min<std::uint64_t>(kMostSamples, input.points()),
                             settings.seed, kRecallSample)) {}

void RecallSample::store(std::span<const std::byte> values) const {
  WorkerSession::write_state(file(), values);
}

std::vector<SampledNeighbours> RecallSample::exact_neighbours(ExhaustiveSearch& search) const {
  VectorBlock samples{input_.dimensions(), ids_};
  const std::vector<std::byte> bytes = read_spilled(file());
  samples.values.resize(bytes.size() / sizeof(float));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(samples.values)).begin());
  const NeighbourLists lists = search.nearest_of(samples);
  std::vector<SampledNeighbours> found;
  for (std::uint32_t i = 0; i < lists.size(); ++i) found.push_back({i, similarities_of(lists[i])});
  return found;
}

std::vector<SampledNeighbours> RecallSample::results(std::uint32_t probes,
                                                     const FoundNeighbours& found,
                                                     PointCopies& copies) const {
  std::vector<SampledNeighbours> results;
  NeighbourLists lists;
  std::optional<std::uint32_t> of_shard;  // ids ascend, so that each shard is read once
  for (std::uint32_t i = 0; i < ids_.size(); ++i) {
    const PointId id = ids_[i];
    const std::uint32_t shard = session_.layout().shard_of(id);
    if (!session_.owns(shard) || copies.contains(id)) continue;  // copies are not searched
    if (shard != of_shard) lists = found.read(shard, probes);
    of_shard = shard;
    results.push_back({i, similarities_of(lists.at(id - session_.first_of(shard)))});
  }
  return results;
}

}  // namespace weft::apps
