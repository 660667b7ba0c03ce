#include "mesh/program/internal/gradient_sums.h"

#include <algorithm>

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
                           const std::set<LocalId>& sent)
    : mesh_(mesh), emitters_(emitters) {
  find_sums();
  find_direct_gradients(sent);
  const std::vector<std::uint64_t> offsets = place_sums();
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const SumBlock& block = blocks_.at(sums_[i].group);
    for (const int rank : emitters.all_ranks())
      sums_[i].buffers.push_back(emitters[rank].add_persistent_buffer(
          emitters[rank].persistent(block.name, block.bytes), offsets[i],
          mesh.local_type(sums_[i].term.gradient, rank)));
  }
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

void GradientSums::find_direct_gradients(const std::set<LocalId>& sent) {
  std::set<LocalId> read = sent;
  for (const Step& step : mesh_.part().steps)
    for (const LocalId input : inputs_of(step)) read.insert(input);
  const auto only_a_gradient = [&](LocalId id) {
    const auto found = sums_of_.find(id);
    return found != sums_of_.end() && found->second.size() == 1 && !read.contains(id);
  };
  for (const Step& step : mesh_.part().steps) {
    const auto* compute = std::get_if<ComputeStep>(&step.what);
    if (compute != nullptr && std::ranges::all_of(compute->outputs, only_a_gradient))
      direct_.insert(compute->outputs.begin(), compute->outputs.end());
  }
}

std::vector<std::uint64_t> GradientSums::place_sums() {
  std::set<StageId> stages;
  for (const GradientSum& sum : sums_) stages.insert(sum.stage);
  std::vector<std::uint64_t> offsets(sums_.size(), 0);
  for (const StageId stage : stages) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].stage != stage) continue;
      SumBlock& block = blocks_[sums_[i].group];
      offsets[i] = block.bytes;
      // Shards are even, so that every rank has the same size.
      block.bytes += (mesh_.local_type(sums_[i].term.gradient, 0).bytes() + 63) / 64 * 64;
      block.stages.try_emplace(stage, offsets[i], 0).first->second.second = block.bytes;
    }
  }
  const DeviceMesh& mesh = mesh_.mesh();
  for (auto& [group, block] : blocks_) {
    block.name = mesh_.spans() ? "gradients on " + mesh.name() : "gradients";
    for (const int axis : group.axes) block.name += "/" + mesh.axes()[axis].name;
    if (!group.scattered.empty()) block.name += " by " + axes_text(group.scattered, mesh);
  }
  return offsets;
}

void GradientSums::add(LocalId gradient, int rank, std::uint32_t buffer) {
  for (const std::size_t index : sums_of_.at(gradient)) {
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
