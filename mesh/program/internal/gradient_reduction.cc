#include "mesh/program/internal/gradient_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "mesh/sharding/axis_groups.h"

namespace weft::mesh {
namespace {

/// Elements of each device's part in one reduce-scatter of gradients; large enough to use links
/// well.
constexpr std::int64_t kBucketElements = 4 << 20;
/// Elements per alignment unit: pieces begin at multiples of 64 bytes.
constexpr std::int64_t kPieceUnit = 16;

std::int64_t padded(std::int64_t elements) {
  return (elements + kPieceUnit - 1) / kPieceUnit * kPieceUnit;
}

using ByteRange = std::pair<std::uint64_t, std::uint64_t>;

/// Returns the stages' parts of a block. Merges adjacent parts.
std::vector<ByteRange> ranges_of(const SumBlock& block, const std::set<StageId>& stages) {
  std::vector<ByteRange> ranges;
  for (const auto& [stage, range] : block.stages) {
    if (!stages.contains(stage)) continue;
    if (ranges.empty() || ranges.back().second != range.first) ranges.push_back(range);
    else ranges.back().second = range.second;
  }
  return ranges;
}

}  // namespace

GradientReduction::GradientReduction(MeshView mesh, const MeshEmitters& emitters,
                                     const GradientSums& sums, const transfer::Topology& topology,
                                     Lowering lowering)
    : mesh_(mesh),
      emitters_(emitters),
      sums_(sums),
      topology_(topology),
      lowering_(lowering),
      bucket_bytes_(largest_bucket()),
      scattered_(sums.sums().size()) {
  for (const GradientSum& sum : sums.sums()) unreduced_.insert(sum.stage);
}

std::int64_t GradientReduction::piece_elements(const GradientSum& sum) const {
  return padded(mesh_.state_type(sums_.parameter_of(sum), 0).elements());
}

std::uint64_t GradientReduction::largest_bucket() const {
  // Total and largest piece, in elements.
  std::map<ReductionGroup, std::pair<std::int64_t, std::int64_t>> pieces;
  for (const GradientSum& sum : sums_.sums()) {
    if (sum.group.scattered.empty()) continue;
    const std::int64_t piece = piece_elements(sum);
    auto& [all, largest] = pieces[sum.group];
    all += piece;
    largest = std::max(largest, piece);
  }
  std::uint64_t bytes = 0;
  for (const auto& [group, sizes] : pieces) {
    const std::int64_t most = std::max(std::min(sizes.first, kBucketElements), sizes.second);
    bytes = std::max<std::uint64_t>(
        bytes, num_parts(group.scattered, mesh_.mesh()) * most * sizeof(float));
  }
  return bytes;
}

void GradientReduction::start(const std::set<StageId>& stages) {
  for (const StageId stage : stages) unreduced_.erase(stage);
  for (const auto& [group, block] : sums_.blocks()) {
    if (group.axes.empty()) continue;
    if (group.scattered.empty()) {
      all_reduce(group, block, stages);
    } else {
      for (const BucketContent& content : plan_buckets(group, stages))
        reduce_scatter(group, content);
    }
  }
}

void GradientReduction::all_reduce(const ReductionGroup& group, const SumBlock& block,
                                   const std::set<StageId>& stages) {
  std::string name = "all-reduce " + block.name;
  if (stages.size() == 1 && block.stages.size() > 1 && block.stages.contains(*stages.begin()))
    name += fmt::format(" of stage {}", *stages.begin());
  for (const auto& [begin, end] : ranges_of(block, stages)) {
    const TensorType type{DType::kF32,
                          {static_cast<std::int64_t>((end - begin) / size_of(DType::kF32))}};
    const auto transfers =
        emitters_.add_transfers(name, TransferPurpose::kAllReduce,
                                plan_all_reduce(type, group.axes, mesh_.mesh(), topology_));
    std::vector<std::uint32_t> pieces;
    for (const int rank : emitters_.all_ranks())
      pieces.push_back(emitters_[rank].add_persistent_buffer(
          emitters_[rank].persistent(block.name, block.bytes), begin, type));
    start_transfers(transfers, pieces, pieces);
  }
}

std::vector<GradientReduction::BucketContent> GradientReduction::plan_buckets(
    const ReductionGroup& group, const std::set<StageId>& stages) const {
  std::vector<BucketContent> contents;
  for (const StageId stage : stages) {
    for (std::size_t i = 0; i < sums_.sums().size(); ++i) {
      const GradientSum& sum = sums_.sums()[i];
      if (sum.stage != stage || sum.group != group) continue;
      const std::int64_t piece = piece_elements(sum);
      if (contents.empty() || contents.back().elements + piece > kBucketElements)
        contents.emplace_back();
      contents.back().sums.push_back(i);
      contents.back().elements += piece;
    }
  }
  return contents;
}

void GradientReduction::reduce_scatter(const ReductionGroup& group, const BucketContent& content) {
  const DeviceMesh& mesh = mesh_.mesh();
  const auto groups = groups_over(mesh, group.scattered);
  const auto members = static_cast<std::int64_t>(groups.front().size());
  const TensorType all{DType::kF32, {members * content.elements}};
  const TensorType own{DType::kF32, {content.elements}};
  const std::string name =
      fmt::format("reduce-scatter {} {}", sums_.blocks().at(group).name, num_scatters_);
  // Waits until the bucket's last transfer has ended. The other bucket may be in flight.
  const std::size_t bucket = num_scatters_++ % in_flight_.size();
  for (std::size_t r = 0; r < in_flight_[bucket].size(); ++r)
    emitters_[r].wait(in_flight_[bucket][r]);
  const std::string block =
      fmt::format("bucket{}/{}", mesh_.spans() ? " on " + mesh.name() : "", bucket);
  std::vector<std::uint32_t> sources(emitters_.size()), results(emitters_.size());
  std::vector<GroupPlan> plans;
  for (const std::vector<int>& ranks : groups) {
    std::vector<transfer::Shard> shards;
    for (const int rank : ranks) {
      const auto begin = static_cast<std::int64_t>(shards.size()) * content.elements;
      shards.push_back({mesh.devices()[rank], Region({{begin, begin + content.elements}})});
      const std::int32_t from = emitters_[rank].persistent(block, bucket_bytes_);
      const std::int32_t to = emitters_[rank].persistent(name, own.bytes());
      sources[rank] = emitters_[rank].add_persistent_buffer(from, 0, all);
      results[rank] = emitters_[rank].add_persistent_buffer(to, 0, own);
      copy_into_bucket(content, rank, ranks, from, to);
    }
    plans.push_back({ranks, transfer::plan_reduce_scatter(DType::kF32, Region::whole(all.shape),
                                                          shards, topology_)});
  }
  const auto transfers = emitters_.add_transfers(name, TransferPurpose::kAllReduce, plans);
  in_flight_[bucket] = start_transfers(transfers, sources, results);
  std::vector<int> rest;
  for (const int axis : group.axes)
    if (std::ranges::find(group.scattered, axis) == group.scattered.end()) rest.push_back(axis);
  if (!rest.empty()) still_partial_.push_back({name, own, rest, results});
}

void GradientReduction::copy_into_bucket(const BucketContent& content, int rank,
                                         const std::vector<int>& ranks, std::int32_t bucket,
                                         std::int32_t result) {
  Emitter& emitter = emitters_[rank];
  std::int64_t offset = 0;
  for (const std::size_t index : content.sums) {
    const GradientSum& sum = sums_.sums()[index];
    const LocalId parameter = sums_.parameter_of(sum);
    const Region held = region_of(mesh_.value(parameter).type.shape,
                                  mesh_.local(sum.term.gradient).spec, mesh_.mesh(), rank);
    for (std::size_t m = 0; m < ranks.size(); ++m) {
      const Region kept = mesh_.region(parameter, ranks[m]);
      const std::uint64_t at =
          (static_cast<std::int64_t>(m) * content.elements + offset) * sizeof(float);
      const std::uint32_t piece =
          emitter.add_persistent_buffer(bucket, at, {DType::kF32, kept.shape()});
      emitters_.slice(rank, held, kept, sum.buffers[rank], piece);
    }
    const TensorType type = mesh_.state_type(parameter, rank);
    auto& parts = scattered_[index];
    parts.resize(emitters_.size());
    parts[rank] = emitter.add_persistent_buffer(result, offset * sizeof(float), type);
    offset += padded(type.elements());
  }
}

std::vector<std::uint32_t> GradientReduction::start_transfers(
    const std::vector<std::uint32_t>& transfers, const std::vector<std::uint32_t>& sources,
    const std::vector<std::uint32_t>& destinations) {
  std::vector<std::uint32_t> handles;
  for (const int rank : emitters_.all_ranks()) {
    const std::size_t r = rank;
    handles.push_back(emitters_[rank].start(transfers[r], -1, sources[r], destinations[r]));
    if (lowering_ == Lowering::kSafe) emitters_[rank].wait(handles.back());
  }
  return handles;
}

void GradientReduction::finish() {
  start(std::set<StageId>(unreduced_));
  emitters_.wait_for_all();
  for (const PartialResult& result : still_partial_) {
    const auto transfers =
        emitters_.add_transfers("all-reduce " + result.name, TransferPurpose::kAllReduce,
                                plan_all_reduce(result.type, result.axes, mesh_.mesh(), topology_));
    start_transfers(transfers, result.buffers, result.buffers);
  }
  emitters_.wait_for_all();
}

}  // namespace weft::mesh
