#include "mesh/program/internal/gradient_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::mesh {
namespace {

/// Returns the axes over which a gradient can be reduce-scattered into its parameter's spec: axes
/// that split one dimension of the parameter further. Empty if other moves are needed.
std::vector<int> scattered_axes(const Spec& gradient, const Spec& wanted) {
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

}  // namespace

GradientSums::GradientSums(MeshView mesh, const MeshEmitters& emitters,
                           const std::set<LocalId>& sent, int microbatches,
                           const transfer::Topology& topology,
                           const std::optional<transfer::Network>& network)
    : mesh_(mesh), emitters_(emitters), microbatches_(microbatches) {
  find_sums();
  plan_buckets(topology, network);
  place_sums();
  name_buckets();
  find_direct_gradients(sent);
}

void GradientSums::find_sums() {
  const MeshPartition& part = mesh_.part();
  std::map<LocalId, StageId> stage_of;
  for (const Step& step : part.steps)
    for (const LocalId output : outputs_of(step)) stage_of[output] = step.stage;
  for (std::size_t i = 0; i < part.parameters.size(); ++i) {
    for (const GradientTerm& term : part.parameters[i].terms) {
      const Spec& spec = mesh_.local(term.gradient).spec;
      sums_of_[term.gradient].push_back(sums_.size());
      sums_.push_back(
          {i,
           term,
           stage_of.at(term.gradient),
           {spec.partial, scattered_axes(spec, mesh_.local(part.parameters[i].value).spec)}});
    }
  }
  started_.assign(sums_.size(), std::vector<bool>(emitters_.size(), false));
}

const std::vector<std::size_t>& GradientSums::sums_of(LocalId id) const {
  static const std::vector<std::size_t> kNone;
  const auto found = sums_of_.find(id);
  return found != sums_of_.end() ? found->second : kNone;
}

bool GradientSums::reduces_at_once(const GradientSum& sum) const {
  return !sum.group.scattered.empty() && !mesh_.spans() &&
         (microbatches_ == 1 || mesh_.part().gather == GatherFrequency::kUse);
}

void GradientSums::plan_buckets(const transfer::Topology& topology,
                                const std::optional<transfer::Network>& network) {
  std::vector<const Step*> steps;
  for (const Step& step : mesh_.part().steps) steps.push_back(&step);
  std::ranges::stable_sort(steps, {},
                           [](const Step* step) { return std::pair(step->stage, step->order); });
  const Graph& graph = mesh_.partition().graph;
  std::map<ReductionGroup, std::uint64_t> min_bytes;
  std::vector<BucketItem> items;
  for (const Step* step : steps) {
    for (const LocalId output : outputs_of(*step)) {
      for (const std::size_t index : sums_of(output)) {
        const GradientSum& sum = sums_[index];
        completion_.push_back(index);
        if (sum.group.axes.empty()) continue;
        const auto [full, is_new] = min_bytes.try_emplace(sum.group, 0);
        if (is_new)
          full->second = full_bucket_bytes(mesh_.mesh(), sum.group.axes, topology, network);
        const NodeId producer = *mesh_.value(output).producer;
        items.push_back({index, sum.group, sum.stage, graph.node(producer).block,
                         mesh_.local_type(output, 0).bytes(), full->second});
      }
    }
  }
  buckets_ = plan_gradient_buckets(items);
}

void GradientSums::name_buckets() {
  std::map<std::pair<ReductionGroup, StageId>, int> numbers;
  for (GradientBucket& bucket : buckets_)
    bucket.name = fmt::format(
        "{} {} of stage {}, {}", bucket.group.scattered.empty() ? "all-reduce" : "reduce-scatter",
        blocks_.at(bucket.group).name, bucket.stage, numbers[{bucket.group, bucket.stage}]++);
}

void GradientSums::find_direct_gradients(const std::set<LocalId>& sent) {
  std::set<LocalId> read = sent;
  for (const Step& step : mesh_.part().steps)
    for (const LocalId input : inputs_of(step)) read.insert(input);
  const auto only_a_gradient = [&](LocalId id) {
    const auto found = sums_of_.find(id);
    return found != sums_of_.end() && found->second.size() == 1 &&
           sums_[found->second.front()].is_kept() && !read.contains(id);
  };
  for (const Step& step : mesh_.part().steps) {
    const auto* compute = std::get_if<ComputeStep>(&step.what);
    if (compute != nullptr && std::ranges::all_of(compute->outputs, only_a_gradient))
      direct_.insert(compute->outputs.begin(), compute->outputs.end());
  }
}

void GradientSums::place_sums() {
  // Bucket by bucket, so that one all-reduce covers adjacent memory.
  std::vector<std::size_t> order;
  for (const GradientBucket& bucket : buckets_)
    order.insert(order.end(), bucket.sums.begin(), bucket.sums.end());
  for (const std::size_t index : completion_)
    if (sums_[index].group.axes.empty()) order.push_back(index);
  for (const GradientSum& sum : sums_) blocks_.try_emplace(sum.group);
  std::erase_if(order, [&](std::size_t index) { return reduces_at_once(sums_[index]); });
  for (const std::size_t index : order) {
    GradientSum& sum = sums_[index];
    SumBlock& block = blocks_.at(sum.group);
    sum.offset = block.bytes;
    // Shards are even, so that every rank has the same size.
    block.bytes += (mesh_.local_type(sum.term.gradient, 0).bytes() + 63) / 64 * 64;
  }
  const DeviceMesh& mesh = mesh_.mesh();
  for (auto& [group, block] : blocks_) {
    block.name = mesh_.spans() ? "gradients on " + mesh.name() : "gradients";
    for (const int axis : group.axes) block.name += "/" + mesh.axes()[axis].name;
    if (!group.scattered.empty()) block.name += " by " + axes_text(group.scattered, mesh);
  }
  for (const std::size_t index : order) {
    GradientSum& sum = sums_[index];
    const SumBlock& block = blocks_.at(sum.group);
    for (const int rank : emitters_.all_ranks())
      sum.buffers.push_back(emitters_[rank].add_persistent_buffer(
          emitters_[rank].persistent(block.name, block.bytes), sum.offset,
          mesh_.local_type(sum.term.gradient, rank)));
  }
}

void GradientSums::add(LocalId gradient, int rank, std::uint32_t buffer) {
  for (const std::size_t index : sums_of_.at(gradient)) {
    if (!sums_[index].is_kept()) continue;
    emitters_[rank].accumulate(buffer, sums_[index].buffers[rank], !started_[index][rank]);
    started_[index][rank] = true;
  }
}

GradientSums::Accumulator GradientSums::write_directly(LocalId gradient, int rank) {
  const std::size_t index = sums_of_.at(gradient).front();
  const Accumulator accumulator{sums_[index].buffers[rank], started_[index][rank]};
  started_[index][rank] = true;
  return accumulator;
}

}  // namespace weft::mesh
