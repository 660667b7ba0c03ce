#include "mesh/program/internal/gradient_reduction.h"

#include <algorithm>
#include <map>
#include <utility>

#include "mesh/sharding/axis_groups.h"

namespace weft::mesh {
namespace {

/// Elements per alignment unit: pieces begin at multiples of 64 bytes.
constexpr std::int64_t kPieceUnit = 16;

std::int64_t padded(std::int64_t elements) {
  return (elements + kPieceUnit - 1) / kPieceUnit * kPieceUnit;
}

/// Returns the number of equal pieces of consecutive memory that each part of a tensor consists of,
/// if the parts cut one dimension into consecutive intervals of equal size: the tensor is that many
/// times a piece of the first part, one of the second part, and so on. Returns 0 for other parts.
std::int64_t pieces_of_part(const Region& whole, const std::vector<Region>& parts) {
  std::size_t cut = 0;
  for (std::size_t d = 0; d < whole.rank(); ++d)
    if (parts.front()[d] != whole[d]) cut = d;
  std::int64_t next = whole[cut].begin, pieces = 1;
  for (const Region& part : parts) {
    for (std::size_t d = 0; d < whole.rank(); ++d)
      if (d != cut && part[d] != whole[d]) return 0;
    if (part[cut].begin != next || part[cut].size() != parts.front()[cut].size()) return 0;
    next = part[cut].end;
  }
  for (std::size_t d = 0; d < cut; ++d) pieces *= whole[d].size();
  return next == whole[cut].end ? pieces : 0;
}

}  // namespace

GradientReduction::GradientReduction(MeshView mesh, const MeshEmitters& emitters,
                                     const GradientSums& sums, const transfer::Topology& topology,
                                     Lowering lowering, std::set<StageId> held)
    : mesh_(mesh),
      emitters_(emitters),
      sums_(sums),
      topology_(topology),
      lowering_(lowering),
      held_(std::move(held)),
      bucket_of_(sums.sums().size(), sums.buckets().size()),
      terms_(sums.sums().size(), 0),
      terms_of_compound_(sums.sums().size(), 0),
      scattered_(sums.sums().size()) {
  add_buckets();
}

void GradientReduction::add_buckets() {
  std::map<std::pair<StageId, int>, std::uint64_t> layers;
  for (const GradientBucket& what : sums_.buckets()) {
    Bucket bucket;
    bucket.what = &what;
    bucket.at_once = !sums_.sums()[what.sums.front()].is_kept();
    bucket.missing = what.sums.size();
    bucket.gradients.resize(what.sums.size());
    for (const std::size_t sum : what.sums) bucket_of_[sum] = buckets_.size();
    if (is_scattered(bucket)) {
      for (const std::size_t sum : what.sums)
        bucket.elements +=
            padded(mesh_.state_type(sums_.parameter_of(sums_.sums()[sum]), 0).elements());
      std::uint64_t& parts = bytes_of_parts_[what.group];
      bucket.offset = parts;
      parts += bucket.elements * size_of(DType::kF32);
      layers[{what.stage, what.layer}] += bytes_of(bucket);
    }
    buckets_.push_back(std::move(bucket));
  }
  for (const auto& [layer, bytes] : layers)
    max_bytes_in_flight_ = std::max(max_bytes_in_flight_, bytes);
}

std::uint64_t GradientReduction::bytes_of(const Bucket& bucket) const {
  const std::int64_t parts = num_parts(bucket.what->group.scattered, mesh_.mesh()) + 1;
  return parts * bucket.elements * size_of(DType::kF32);
}

void GradientReduction::computed(LocalId value, int microbatch) {
  for (const std::size_t sum : sums_.sums_of(value)) {
    ++terms_[sum];
    if (bucket_of_[sum] == buckets_.size()) continue;
    Bucket& bucket = buckets_[bucket_of_[sum]];
    const bool is_last = terms_[sum] == sums_.microbatches();
    if (bucket.at_once) {
      if (++terms_of_compound_[sum] < sums_.terms_of_compound(sum)) continue;
      terms_of_compound_[sum] = 0;
      ByRank& gradient =
          bucket.gradients[std::ranges::find(bucket.what->sums, sum) - bucket.what->sums.begin()];
      gradient.clear();
      for (const int rank : emitters_.all_ranks()) gradient.push_back(sums_.of_compound(sum, rank));
    } else if (!is_last) {
      continue;
    }
    if (--bucket.missing > 0) continue;
    if (!is_last) bucket.missing = bucket.what->sums.size();
    if (!is_last || !is_held(bucket)) complete_.push_back({bucket_of_[sum], is_last, microbatch});
  }
}

bool GradientReduction::is_held(const Bucket& bucket) const {
  if (lowering_ == Lowering::kSafe && !bucket.at_once) return true;
  return held_.contains(bucket.what->stage);
}

void GradientReduction::start_complete() {
  for (const Complete& complete : std::exchange(complete_, {}))
    start_bucket(complete.bucket, complete.is_last, complete.microbatch);
}

void GradientReduction::start(StageId stage) {
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    if (buckets_[i].what->stage == stage && !buckets_[i].is_over)
      start_bucket(i, true, kNoMicrobatch);
}

void GradientReduction::start_bucket(std::size_t index, bool is_last, int during) {
  Bucket& bucket = buckets_[index];
  bucket.is_over = is_last;
  if (!bucket.at_once)
    for (std::size_t i = 0; i < bucket.what->sums.size(); ++i)
      bucket.gradients[i] = sums_.sums()[bucket.what->sums[i]].buffers;
  if (is_scattered(bucket)) reduce_scatter(index, is_last, during);
  else all_reduce(bucket, during);
}

void GradientReduction::all_reduce(Bucket& bucket, int during) {
  const GradientSum &first = sums_.sums()[bucket.what->sums.front()],
                    &last = sums_.sums()[bucket.what->sums.back()];
  const std::uint64_t end = last.offset + mesh_.local_type(last.term.gradient, 0).bytes();
  const TensorType type{DType::kF32,
                        {static_cast<std::int64_t>((end - first.offset) / size_of(DType::kF32))}};
  ByRank sums;
  for (const int rank : emitters_.all_ranks()) {
    const SumBlock& block = sums_.blocks().at(bucket.what->group);
    sums.push_back(emitters_[rank].add_persistent_buffer(
        emitters_[rank].persistent(block.name, block.bytes), first.offset, type));
  }
  bucket.all_reduces = all_reduce(bucket.what->name, type, bucket.what->group.axes, sums, during);
}

GradientReduction::ByRank GradientReduction::all_reduce(const std::string& name,
                                                        const TensorType& type,
                                                        const std::vector<int>& axes,
                                                        const ByRank& sums, int during) {
  const ByRank transfers = emitters_.add_transfers(
      name, TransferPurpose::kAllReduce, plan_all_reduce(type, axes, mesh_.mesh(), topology_));
  return start_transfers(transfers, during, sums, sums);
}

void GradientReduction::reduce_scatter(std::size_t index, bool is_last, int during) {
  Bucket& bucket = buckets_[index];
  if (bucket.transfers.empty()) prepare_scatter(bucket);
  while (!in_flight_.empty() && bytes_in_flight_ + bytes_of(bucket) > max_bytes_in_flight_)
    end_oldest(during);
  const bool is_first = !std::exchange(bucket.has_started, true);
  const bool adds_up = !is_first || !is_last;
  InFlight started{index, {}, bucket.results, is_first, is_last};
  ByRank sources(emitters_.size());
  for (const std::vector<int>& ranks : groups_over(mesh_.mesh(), bucket.what->group.scattered)) {
    for (const int rank : ranks) {
      sources[rank] = ordered_gradients(bucket, rank, ranks);
      if (adds_up)
        started.results[rank] = emitters_[rank].add_arena_buffer({DType::kF32, {bucket.elements}});
    }
  }
  started.handles = start_transfers(bucket.transfers, during, sources, started.results);
  bytes_in_flight_ += bytes_of(bucket);
  in_flight_.push_back(std::move(started));
  if (lowering_ == Lowering::kSafe) end_oldest(during);
}

void GradientReduction::prepare_scatter(Bucket& bucket) {
  const DeviceMesh& mesh = mesh_.mesh();
  const TensorType part{DType::kF32, {bucket.elements}};
  const ReductionGroup& group = bucket.what->group;
  std::vector<GroupPlan> plans;
  bucket.results.resize(emitters_.size());
  for (const std::vector<int>& ranks : groups_over(mesh, bucket.what->group.scattered)) {
    std::vector<transfer::Shard> shards;
    for (const int rank : ranks) {
      const auto begin = static_cast<std::int64_t>(shards.size()) * bucket.elements;
      shards.push_back({mesh.devices()[rank], Region({{begin, begin + bucket.elements}})});
      Emitter& emitter = emitters_[rank];
      bucket.results[rank] = emitter.add_persistent_buffer(
          emitter.persistent(sums_.blocks().at(group).name + ", parts", bytes_of_parts_.at(group)),
          bucket.offset, part);
      std::uint64_t offset = 0;
      for (const std::size_t sum : bucket.what->sums) {
        const TensorType type = mesh_.state_type(sums_.parameter_of(sums_.sums()[sum]), rank);
        scattered_[sum].resize(emitters_.size());
        scattered_[sum][rank] = emitter.add_view(bucket.results[rank], offset, type);
        offset += padded(type.elements()) * size_of(DType::kF32);
      }
    }
    const Region all({{0, static_cast<std::int64_t>(ranks.size()) * bucket.elements}});
    plans.push_back({ranks, transfer::plan_reduce_scatter(DType::kF32, all, shards, topology_)});
  }
  bucket.transfers = emitters_.add_transfers(bucket.what->name, TransferPurpose::kAllReduce, plans);
}

std::vector<std::uint32_t> GradientReduction::rows_for_receivers(const Bucket& bucket, int rank,
                                                                 const std::vector<int>& ranks) {
  constexpr std::int64_t kMaxPieces = 16;
  Emitter& emitter = emitters_[rank];
  const auto receivers = std::ssize(ranks);
  std::vector<std::uint32_t> rows;
  for (std::size_t i = 0; i < bucket.what->sums.size(); ++i) {
    const GradientSum& sum = sums_.sums()[bucket.what->sums[i]];
    const Region held = mesh_.region(sum.term.gradient, rank);
    std::vector<Region> parts;
    for (const int receiver : ranks)
      parts.push_back(mesh_.region(sums_.parameter_of(sum), receiver));
    const std::int64_t pieces = pieces_of_part(held, parts);
    const std::int64_t elements = parts.front().num_elements();
    if (pieces == 0 || pieces > kMaxPieces || padded(elements) != elements) return {};
    const TensorType type{DType::kF32, {receivers, elements / pieces}};
    for (std::int64_t piece = 0; piece < pieces; ++piece)
      rows.push_back(emitter.add_view(bucket.gradients[i][rank], piece * type.bytes(), type));
  }
  return rows;
}

std::uint32_t GradientReduction::ordered_gradients(const Bucket& bucket, int rank,
                                                   const std::vector<int>& ranks) {
  Emitter& emitter = emitters_[rank];
  const TensorType all{DType::kF32, {std::ssize(ranks) * bucket.elements}};
  std::vector<std::uint32_t> rows = rows_for_receivers(bucket, rank, ranks);
  if (rows.size() == 1) return emitter.add_view(rows.front(), 0, all);
  if (!rows.empty()) {
    const std::uint32_t joined = emitter.add_arena_buffer(all);
    const TensorType by_receiver{DType::kF32, {std::ssize(ranks), bucket.elements}};
    emitter.run({OpKind::kConcat, {}}, std::move(rows), {emitter.add_view(joined, 0, by_receiver)},
                false);
    return joined;
  }
  std::optional<std::uint32_t> copy;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < bucket.what->sums.size(); ++i) {
    const GradientSum& sum = sums_.sums()[bucket.what->sums[i]];
    const std::uint32_t gradient = bucket.gradients[i][rank];
    const Region held = mesh_.region(sum.term.gradient, rank);
    std::vector<Region> parts;
    for (const int receiver : ranks)
      parts.push_back(mesh_.region(sums_.parameter_of(sum), receiver));
    if (!copy) copy = emitter.add_arena_buffer(all);
    for (std::size_t m = 0; m < ranks.size(); ++m) {
      const std::int64_t at = static_cast<std::int64_t>(m) * bucket.elements + offset;
      emitters_.slice(
          rank, held, parts[m], gradient,
          emitter.add_view(*copy, at * size_of(DType::kF32), {DType::kF32, parts[m].shape()}));
    }
    offset += padded(parts.front().num_elements());
  }
  return *copy;
}

void GradientReduction::end_oldest(int during) {
  const InFlight ended = std::move(in_flight_.front());
  in_flight_.pop_front();
  Bucket& bucket = buckets_[ended.bucket];
  bytes_in_flight_ -= bytes_of(bucket);
  for (const int rank : emitters_.all_ranks()) {
    emitters_[rank].wait(ended.handles[rank]);
    if (ended.results[rank] != bucket.results[rank])
      emitters_[rank].accumulate(ended.results[rank], bucket.results[rank], ended.is_first);
  }
  if (!ended.is_last) return;
  // The parts may still be partial over other axes.
  std::vector<int> rest;
  for (const int axis : bucket.what->group.axes)
    if (std::ranges::find(bucket.what->group.scattered, axis) == bucket.what->group.scattered.end())
      rest.push_back(axis);
  if (!rest.empty())
    bucket.all_reduces = all_reduce("all-reduce " + bucket.what->name,
                                    {DType::kF32, {bucket.elements}}, rest, bucket.results, during);
}

GradientReduction::ByRank GradientReduction::start_transfers(const ByRank& transfers,
                                                             int microbatch, const ByRank& sources,
                                                             const ByRank& destinations) {
  ByRank handles;
  for (const int rank : emitters_.all_ranks()) {
    const std::size_t r = rank;
    handles.push_back(emitters_[rank].start(transfers[r], microbatch, sources[r], destinations[r]));
    if (lowering_ == Lowering::kSafe) emitters_[rank].wait(handles.back());
  }
  return handles;
}

void GradientReduction::end(std::size_t sum) {
  if (!reduces(sum)) return;
  const std::size_t index = bucket_of_[sum];
  if (!buckets_[index].is_over) start_bucket(index, true, kNoMicrobatch);
  while (std::ranges::find(in_flight_, index, &InFlight::bucket) != in_flight_.end())
    end_oldest(kNoMicrobatch);
  for (std::size_t r = 0; r < buckets_[index].all_reduces.size(); ++r)
    emitters_[r].wait(buckets_[index].all_reduces[r]);
}

void GradientReduction::finish() {
  for (const StageId stage : mesh_.partition().mesh_of_stage.ids()) start(stage);
  while (!in_flight_.empty()) end_oldest(kNoMicrobatch);
  emitters_.wait_for_all();
}

}  // namespace weft::mesh
