#include "mesh/program/internal/gradient_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mesh/program/lanes.h"

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

GradientSums::GradientSums(MeshView mesh, const MeshEmitters& emitters, std::set<LocalId> sent,
                           const Schedule& schedule, const transfer::Topology& topology,
                           const std::optional<transfer::Network>& network)
    : mesh_(mesh), emitters_(emitters), schedule_(schedule), read_(std::move(sent)) {
  for (const Step& step : mesh.part().steps)
    for (const LocalId input : inputs_of(step)) read_.insert(input);
  find_sums();
  plan_buckets(topology, network);
  place_sums();
  name_buckets();
  find_direct_gradients();
}

void GradientSums::find_sums() {
  const MeshPartition& part = mesh_.part();
  std::map<LocalId, const Step*> maker;
  for (const Step& step : part.steps)
    for (const LocalId output : outputs_of(step)) maker[output] = &step;
  for (std::size_t i = 0; i < part.parameters.size(); ++i) {
    for (const GradientTerm& term : part.parameters[i].terms) {
      const Spec& spec = mesh_.local(term.gradient).spec;
      sums_of_[term.gradient].push_back(sums_.size());
      sums_.push_back(
          {i,
           term,
           maker.at(term.gradient)->stage,
           maker.at(term.gradient)->pass,
           {spec.partial, scattered_axes(spec, mesh_.local(part.parameters[i].value).spec)}});
    }
  }
  started_.assign(sums_.size(), std::vector<bool>(emitters_.size(), false));
  terms_of_compound_.assign(sums_.size(), 1);
  of_compound_.resize(sums_.size());
}

const std::vector<std::size_t>& GradientSums::sums_of(LocalId id) const {
  static const std::vector<std::size_t> kNone;
  const auto found = sums_of_.find(id);
  return found != sums_of_.end() ? found->second : kNone;
}

bool GradientSums::reduces_at_once(const GradientSum& sum) const {
  return !sum.group.scattered.empty() && !mesh_.spans() &&
         (mesh_.part().gather == GatherFrequency::kUse || has_one_compound(sum));
}

bool GradientSums::has_one_compound(const GradientSum& sum) const {
  if (schedule_.microbatches == 1) return true;
  // Sums of a bucket are all kept or none.
  const auto adds = [&](const Action& action) {
    return action.stage == sum.stage.value() &&
           std::ranges::any_of(sums_, [&](const GradientSum& other) {
             return other.stage == sum.stage && !other.group.scattered.empty() &&
                    runs_pass(action.kind, other.pass);
           });
  };
  for (const std::vector<Action>& actions : schedule_.actors) {
    const auto first = std::ranges::find_if(actions, adds);
    if (first == actions.end()) continue;
    const auto end = std::find_if(first + 1, actions.end(),
                                  [](const Action& action) { return !action.joins_previous; });
    return std::none_of(end, actions.end(), adds);
  }
  return false;
}

void GradientSums::begin(std::span<const Action> members) {
  for (std::size_t index = 0; index < sums_.size(); ++index) {
    of_compound_[index].clear();
    terms_of_compound_[index] =
        static_cast<int>(std::ranges::count_if(members, [&](const Action& action) {
          return action.stage == sums_[index].stage.value() &&
                 runs_pass(action.kind, sums_[index].pass);
        }));
  }
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

void GradientSums::find_direct_gradients() {
  const auto only_a_gradient = [&](LocalId id) {
    return sums_of(id).size() == 1 && !read_.contains(id);
  };
  const auto is_kept = [&](LocalId id) { return sums_[sums_of(id).front()].is_kept(); };
  for (const Step& step : mesh_.part().steps) {
    const auto* compute = std::get_if<ComputeStep>(&step.what);
    if (compute == nullptr || !std::ranges::all_of(compute->outputs, only_a_gradient)) continue;
    // An op adds to all its outputs or to none.
    const auto kept = std::ranges::count_if(compute->outputs, is_kept);
    if (kept == 0 || kept == std::ssize(compute->outputs))
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
    if (!sums_[index].is_kept()) {
      add_in_compound(index, gradient, rank, buffer);
      continue;
    }
    emitters_[rank].accumulate(buffer, sums_[index].buffers[rank], !started_[index][rank]);
    started_[index][rank] = true;
  }
}

void GradientSums::add_in_compound(std::size_t index, LocalId gradient, int rank,
                                   std::uint32_t buffer) {
  std::map<int, std::uint32_t>& of_compound = of_compound_[index];
  const bool is_shared = read_.contains(gradient) || sums_of(gradient).size() > 1;
  if (terms_of_compound_[index] == 1 || (!is_shared && !of_compound.contains(rank))) {
    of_compound[rank] = buffer;
    return;
  }
  const bool is_first = !of_compound.contains(rank);
  if (is_first)
    of_compound[rank] = emitters_[rank].add_arena_buffer(mesh_.local_type(gradient, rank));
  emitters_[rank].accumulate(buffer, of_compound[rank], is_first);
}

GradientSums::Accumulator GradientSums::write_directly(LocalId gradient, int rank,
                                                       const std::function<std::uint32_t()>& own) {
  const std::size_t index = sums_of_.at(gradient).front();
  if (!sums_[index].is_kept()) {
    std::map<int, std::uint32_t>& of_compound = of_compound_[index];
    const bool holds_sum = terms_of_compound_[index] > 1 && of_compound.contains(rank);
    if (!holds_sum) of_compound[rank] = own();
    return {of_compound[rank], holds_sum};
  }
  const Accumulator accumulator{sums_[index].buffers[rank], started_[index][rank]};
  started_[index][rank] = true;
  return accumulator;
}

}  // namespace weft::mesh
