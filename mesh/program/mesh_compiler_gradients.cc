#include "mesh/program/mesh_compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "mesh/program/parameter_blocks.h"
#include "mesh/sharding/axis_groups.h"
#include "mesh/strategy/strategy.h"

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

}  // namespace

std::vector<int> MeshCompiler::scattered_axes(const Spec& gradient, const Spec& wanted) {
  std::vector<int> scattered;
  std::size_t changed = 0;
  for (std::size_t d = 0; d < wanted.dims.size(); ++d) {
    const auto& from = gradient.dims[d];
    const auto& to = wanted.dims[d];
    if (from == to) continue;
    const bool is_scattered =
        from.size() < to.size() && std::equal(from.begin(), from.end(), to.begin());
    if (!is_scattered || ++changed > 1) return {};
    scattered.assign(to.begin() + static_cast<std::ptrdiff_t>(from.size()), to.end());
  }
  for (const int axis : scattered)
    if (!gradient.is_partial_over(axis)) return {};
  return scattered;
}

void MeshCompiler::start_reduction(const std::set<StageId>& stages) {
  for (const StageId stage : stages) unreduced_.erase(stage);
  for (const auto& [sums, block] : sum_blocks_) {
    if (sums.axes.empty()) continue;
    if (!sums.scattered.empty()) {
      scatter(sums, stages);
      continue;
    }
    // Merge adjacent pieces into one all-reduce.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
    std::string name = "all-reduce " + block.name;
    for (const auto& [stage, piece] : block.stages) {
      if (!stages.contains(stage)) continue;
      if (stages.size() == 1 && block.stages.size() > 1) name += fmt::format(" of stage {}", stage);
      if (pieces.empty() || pieces.back().second != piece.first) {
        pieces.push_back(piece);
      } else {
        pieces.back().second = piece.second;
      }
    }
    for (const auto& [begin, end] : pieces) {
      const TensorType type{DType::kF32,
                            {static_cast<std::int64_t>((end - begin) / size_of(DType::kF32))}};
      const auto transfers = add_group_plans(name, TransferPurpose::kAllReduce,
                                             plan_all_reduce(type, sums.axes, mesh_, topology_));
      for (std::size_t r = 0; r < emitters_.size(); ++r) {
        const std::int32_t persistent = emitters_[r]->persistent(block.name, block.bytes);
        const std::uint32_t piece = emitters_[r]->add_persistent_buffer(persistent, begin, type);
        const std::uint32_t handle = emitters_[r]->start(transfers[r], -1, piece, piece);
        if (options_.lowering == Lowering::kSafe) emitters_[r]->wait(handle);
      }
    }
  }
}

void MeshCompiler::size_buckets() {
  // Total and largest piece, in elements.
  std::map<ReductionGroup, std::pair<std::int64_t, std::int64_t>> pieces;
  for (const GradientSum& sum : sums_) {
    if (sum.alike.scattered.empty()) continue;
    const std::int64_t piece = padded(state_type(local_of(sum), 0).elements());
    auto& [all, largest] = pieces[sum.alike];
    all += piece;
    largest = std::max(largest, piece);
  }
  for (const auto& [alike, sizes] : pieces) {
    const std::int64_t most = std::max(std::min(sizes.first, kBucketElements), sizes.second);
    const std::uint64_t bytes = num_parts(alike.scattered, mesh_) * most * sizeof(float);
    bucket_bytes_ = std::max(bucket_bytes_, bytes);
  }
}

void MeshCompiler::scatter(const ReductionGroup& alike, const std::set<StageId>& stages) {
  std::vector<std::size_t> bucket;
  std::int64_t elements = 0;
  const auto finish_bucket = [&] {
    if (!bucket.empty()) scatter_bucket(alike, bucket, elements);
    bucket.clear();
    elements = 0;
  };
  for (const StageId stage : stages) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].stage != stage || sums_[i].alike != alike) continue;
      const std::int64_t piece = padded(state_type(local_of(sums_[i]), 0).elements());
      if (elements + piece > kBucketElements) finish_bucket();
      bucket.push_back(i);
      elements += piece;
    }
  }
  finish_bucket();
}

void MeshCompiler::scatter_bucket(const ReductionGroup& alike,
                                  const std::vector<std::size_t>& bucket, std::int64_t elements) {
  const auto groups = groups_over(mesh_, alike.scattered);
  const auto members = static_cast<std::int64_t>(groups.front().size());
  const TensorType all{DType::kF32, {members * elements}}, own{DType::kF32, {elements}};
  const std::string name =
      fmt::format("reduce-scatter {} {}", sum_blocks_.at(alike).name, num_buckets_);
  // Two buckets alternate: one is filled while the other is in flight.
  Bucket& bucket_block = buckets_[num_buckets_++ % buckets_.size()];
  for (std::size_t r = 0; r < bucket_block.under_way.size(); ++r)
    emitters_[r]->wait(bucket_block.under_way[r]);
  bucket_block.under_way.clear();
  const std::string block = fmt::format("bucket{}/{}", spans() ? " on " + mesh_.name() : "",
                                        &bucket_block - buckets_.data());
  std::vector<std::uint32_t> sources(emitters_.size()), results(emitters_.size());
  std::vector<GroupPlan> plans;
  for (const std::vector<int>& group : groups) {
    std::vector<transfer::Shard> shards;
    for (const int rank : group) {
      const auto begin = static_cast<std::int64_t>(shards.size()) * elements;
      shards.push_back({mesh_.devices()[rank], Region({{begin, begin + elements}})});
      Emitter& emitter = this->emitter(rank);
      const std::int32_t from = emitter.persistent(block, bucket_bytes_);
      const std::int32_t to = emitter.persistent(name, own.bytes());
      sources[rank] = emitter.add_persistent_buffer(from, 0, all);
      results[rank] = emitter.add_persistent_buffer(to, 0, own);
      fill_bucket(bucket, rank, group, from, to, elements);
    }
    plans.push_back({group, transfer::plan_reduce_scatter(DType::kF32, Region::whole(all.shape),
                                                          shards, topology_)});
  }
  const auto transfers = add_group_plans(name, TransferPurpose::kAllReduce, plans);
  for (std::size_t r = 0; r < emitters_.size(); ++r) {
    bucket_block.under_way.push_back(emitters_[r]->start(transfers[r], -1, sources[r], results[r]));
    if (options_.lowering == Lowering::kSafe) emitters_[r]->wait(bucket_block.under_way.back());
  }
  std::vector<int> rest;
  for (const int axis : alike.axes)
    if (std::ranges::find(alike.scattered, axis) == alike.scattered.end()) rest.push_back(axis);
  if (!rest.empty()) still_partial_.push_back({name, own, rest, results});
}

void MeshCompiler::fill_bucket(const std::vector<std::size_t>& bucket, int rank,
                               const std::vector<int>& group, std::int32_t block,
                               std::int32_t result, std::int64_t elements) {
  Emitter& emitter = this->emitter(rank);
  std::int64_t offset = 0;
  for (const std::size_t index : bucket) {
    GradientSum& sum = sums_[index];
    const LocalId parameter = local_of(sum);
    const Shape& shape = partition_.graph.value(local(parameter).value).type.shape;
    const Region held = region_of(shape, local(sum.term.gradient).spec, mesh_, rank);
    for (std::size_t m = 0; m < group.size(); ++m) {
      const Region kept = region_of(shape, local(parameter).spec, mesh_, group[m]);
      const std::uint64_t at = (static_cast<std::int64_t>(m) * elements + offset) * sizeof(float);
      const std::uint32_t piece =
          emitter.add_persistent_buffer(block, at, {DType::kF32, kept.shape()});
      emit_slice(rank, held, kept, sum.buffers[rank], piece);
    }
    const TensorType type = state_type(parameter, rank);
    sum.reduced.push_back(emitter.add_persistent_buffer(result, offset * sizeof(float), type));
    offset += padded(type.elements());
  }
}

void MeshCompiler::finish_reduction() {
  for (const ReducedBucket& bucket : still_partial_) {
    const auto transfers =
        add_group_plans("all-reduce " + bucket.name, TransferPurpose::kAllReduce,
                        plan_all_reduce(bucket.type, bucket.axes, mesh_, topology_));
    for (std::size_t r = 0; r < emitters_.size(); ++r) {
      const std::uint32_t handle =
          emitters_[r]->start(transfers[r], -1, bucket.buffers[r], bucket.buffers[r]);
      if (options_.lowering == Lowering::kSafe) emitters_[r]->wait(handle);
    }
  }
}

std::string MeshCompiler::term_block(std::size_t parameter, int term) const {
  return fmt::format("gradient/{}/{}", value_name(part_.parameters[parameter].value), term);
}

std::vector<std::uint32_t> MeshCompiler::final_term(std::size_t index) {
  const GradientSum& sum = sums_[index];
  if (!sum.reduced.empty()) return sum.reduced;
  const LocalParameter& parameter = part_.parameters[sum.parameter];
  Spec spec = local(sum.term.gradient).spec;
  spec.partial.clear();
  const Spec& wanted = local(parameter.value).spec;
  if (spec == wanted) return sum.buffers;
  // The gradient is sharded unlike its parameter: reshard it once per step.
  const TensorType type{DType::kF32,
                        partition_.graph.value(local(parameter.value).value).type.shape};
  const std::vector<Move> moves = plan_moves(type.shape, spec, wanted, mesh_);
  std::vector<std::uint32_t> buffers = sum.buffers;
  for (const Move& move : moves) {
    std::vector<std::uint32_t> moved;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      Emitter& emitter = this->emitter(rank);
      const TensorType part{DType::kF32, local_shape(type.shape, move.to, mesh_, rank)};
      moved.push_back(
          move.to == wanted
              ? emitter.add_persistent_buffer(
                    emitter.persistent(term_block(sum.parameter, sum.term.index), part.bytes()), 0,
                    part)
              : emitter.add_arena_buffer(part));
    }
    if (move.kind == MoveKind::kSlice) {
      slice(type, move, buffers, moved);
    } else {
      const auto transfers = add_move(
          fmt::format("{} gradient of {}", to_string(move.kind), value_name(parameter.value)), type,
          move);
      for (std::size_t r = 0; r < emitters_.size(); ++r)
        emitters_[r]->start(transfers[r], -1, buffers[r], moved[r]);
    }
    buffers = std::move(moved);
  }
  return buffers;
}

std::vector<std::vector<std::uint32_t>> MeshCompiler::final_gradients(
    const std::vector<TermTransfer>& transfers) {
  // Per parameter: buffers by rank, keyed by term index.
  std::vector<std::map<int, std::vector<std::uint32_t>>> terms(part_.parameters.size());
  for (std::size_t i = 0; i < sums_.size(); ++i)
    terms[sums_[i].parameter][sums_[i].term.index] = final_term(i);
  for (const TermTransfer& transfer : transfers) {
    const bool sends = transfer.from_mesh == mesh_id_;
    if (!sends && transfer.to_mesh != mesh_id_) continue;
    const auto at = std::find_if(
        part_.parameters.begin(), part_.parameters.end(),
        [&](const LocalParameter& parameter) { return parameter.parameter == transfer.parameter; });
    const std::size_t index = at - part_.parameters.begin();
    std::vector<std::uint32_t>& buffers = terms[index][transfer.term];
    const std::string name = fmt::format("gradient of {} {}->{}", value_name(at->value),
                                         partition_.meshes[transfer.from_mesh].name(),
                                         partition_.meshes[transfer.to_mesh].name());
    for (std::size_t r = 0; r < emitters_.size(); ++r) {
      Emitter& emitter = this->emitter(r);
      if (!sends) {
        const TensorType type = state_type(at->value, r);
        const std::int32_t block =
            emitter.persistent(term_block(index, transfer.term), type.bytes());
        buffers.push_back(emitter.add_persistent_buffer(block, 0, type));
      }
      const transfer::DevicePart part = transfer.plan.device_part(mesh_.devices()[r]);
      if (part.empty()) continue;
      const std::uint32_t added =
          emitter.add_transfer({name, TransferPurpose::kReshard, transfer.op, part});
      const std::optional<std::uint32_t> buffer = buffers[r];
      const std::uint32_t handle =
          emitter.start(added, -1, sends ? buffer : std::nullopt, sends ? std::nullopt : buffer);
      if (options_.lowering == Lowering::kSafe) emitter.wait(handle);
    }
  }
  std::vector<std::vector<std::uint32_t>> gradients;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    WEFT_CHECK(!terms[i].empty(), "'{}' has no gradient", value_name(part_.parameters[i].value));
    if (terms[i].size() == 1) {
      gradients.push_back(terms[i].begin()->second);
      continue;
    }
    gradients.emplace_back();
    for (std::size_t r = 0; r < emitters_.size(); ++r) {
      const TensorType type = state_type(part_.parameters[i].value, r);
      const std::int32_t block = emitters_[r]->persistent(
          "gradient/" + value_name(part_.parameters[i].value), type.bytes());
      const std::uint32_t sum = emitters_[r]->add_persistent_buffer(block, 0, type);
      for (const auto& [term, buffers] : terms[i])
        emitters_[r]->accumulate(buffers[r], sum, term == 0);
      gradients.back().push_back(sum);
    }
  }
  return gradients;
}

void MeshCompiler::wait_for_all() {
  for (Emitter* emitter : emitters_) emitter->wait_for_all();
}

void MeshCompiler::emit_gradients(const std::vector<TermTransfer>& terms) {
  active_ = &all_ranks_;
  start_reduction(std::set<StageId>(unreduced_));
  wait_for_all();
  finish_reduction();
  wait_for_all();
  const std::vector<std::vector<std::uint32_t>> gradients = final_gradients(terms);
  for (std::size_t i = 0; i < part_.parameters.size(); ++i) {
    const LocalParameter& parameter = part_.parameters[i];
    const Parameter& logical = partition_.graph.parameters()[parameter.parameter];
    const Value& value = partition_.graph.value(logical.value);
    const Spec& spec = local(parameter.value).spec;
    for (const int rank : all_ranks_) {
      const std::size_t r = rank;
      const TensorType type = state_type(parameter.value, rank);
      const std::vector<std::string> blocks = optimizer_blocks(value.name);
      const auto state = [&](std::size_t block) {
        return emitters_[r]->add_persistent_buffer(
            emitters_[r]->persistent(blocks[block], type.bytes()), 0, type);
      };
      const std::uint32_t read = parameters_[r].at(parameter.value);
      const bool copied = value.type.dtype != DType::kF32;
      emitters_[r]->add_parameter({value.name, static_cast<std::uint32_t>(parameter.parameter),
                                   logical.shape, region_of(value.type.shape, spec, mesh_, rank),
                                   static_cast<std::uint8_t>(logical.initializer.kind),
                                   logical.initializer.standard_deviation, logical.decay,
                                   parameter.is_home && is_first_replica(spec, mesh_, rank),
                                   copied ? state(0) : read, gradients[i][r], state(1), state(2),
                                   copied ? static_cast<std::int32_t>(read) : -1});
    }
  }
}

}  // namespace weft::mesh
