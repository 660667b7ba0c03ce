#include "mesh/plan/spanning_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mesh/program/step_order.h"

namespace weft::mesh {
namespace {

constexpr const char* kDataAxis = "data";

/// Returns the size of the axis `data` if all meshes have the same, else 1.
std::int64_t common_data(const IndexedVector<MeshId, DeviceMesh>& meshes) {
  std::optional<std::int64_t> common;
  for (const DeviceMesh& mesh : meshes) {
    const std::optional<int> axis = mesh.axis(kDataAxis);
    const std::int64_t size = axis ? mesh.axes()[*axis].size : 1;
    if (common && *common != size) return 1;
    common = size;
  }
  return common.value_or(1);
}

}  // namespace

DeviceMesh make_spanning_mesh(const ParallelConfig& layout,
                              const IndexedVector<MeshId, DeviceMesh>& meshes) {
  if (meshes.size() < 2) {
    throw Error(ErrorCode::kInvalidConfig,
                fmt::format("{} shares the vocabulary among the meshes of a pipeline, "
                            "but there is only '{}'; split it by `sharding: {{vocab: AXIS}}` "
                            "instead, or use more meshes",
                            to_string(layout.vocabulary), meshes[MeshId(0)].name()))
        .at("pipeline.vocabulary");
  }
  std::vector<MeshId> order;
  for (const int mesh : layout.mesh_of_stage())
    if (std::ranges::find(order, MeshId(mesh)) == order.end()) order.emplace_back(mesh);
  const std::int64_t data = common_data(meshes);
  std::vector<transfer::DeviceId> devices;
  for (std::int64_t slice = 0; slice < data; ++slice) {
    for (const MeshId id : order) {
      const DeviceMesh& mesh = meshes[id];
      for (int rank = 0; rank < mesh.size(); ++rank)
        if (data == 1 || mesh.coordinate(rank)[*mesh.axis(kDataAxis)] == slice)
          devices.push_back(mesh.devices()[rank]);
    }
  }
  const std::int64_t all = std::ssize(devices);
  std::vector<MeshAxis> axes;
  if (data > 1) axes.push_back({kDataAxis, data});
  axes.push_back({kVocabularyAxis, all / data});
  return {kVocabularyAxis, std::move(axes), std::move(devices)};
}

ShardingRules spanning_rules() {
  ShardingRules rules;
  rules.axes.emplace_back("batch", std::vector<std::string>{kDataAxis});
  rules.axes.emplace_back("vocab", std::vector<std::string>{kVocabularyAxis});
  return rules;
}

FeatureSplits spanning_splits(const DeviceMesh& spanning, VocabularyMode mode) {
  const std::int64_t ways = spanning.axes()[*spanning.axis(kVocabularyAxis)].size;
  FeatureSplits splits{1, ways, ways};
  splits.early_input_grad = mode == VocabularyMode::kVocab2;
  return splits;
}

VocabularyTimes vocabulary_times(const Partition& partition, const ParallelConfig& layout) {
  if (layout.vocabulary_times) return *layout.vocabulary_times;
  VocabularyTimes times;
  if (!partition.vocabulary) return times;
  const auto& [output, input] = *partition.vocabulary;
  double forward = 0, input_grad = 0, weight_grad = 0, scores = 0, grads = 0, embedding = 0;
  int actors = 0;
  for (const MeshId mesh : partition.meshes.ids()) actors += partition.spans(mesh) ? 0 : 1;
  const double devices = partition.meshes[*partition.spanning_mesh()].size();
  for (const NodeId id : partition.stage_of_node.ids()) {
    const Node& node = partition.graph.node(id);
    const StageId stage = partition.stage_of_node[id];
    const double work = nominal_seconds(partition.graph, node);
    const MeshId mesh = partition.mesh_of_stage[stage];
    if (stage == output) {
      const bool early =
          layout.vocabulary == VocabularyMode::kVocab2 && node.pass == Pass::kInputGrad;
      (node.pass == Pass::kForward || early ? scores : grads) += work / devices;
    } else if (input && stage == *input) {
      embedding += work / devices;
    } else {
      (node.pass == Pass::kForward     ? forward
       : node.pass == Pass::kInputGrad ? input_grad
                                       : weight_grad) += work / partition.meshes[mesh].size();
    }
  }
  // Stages that take no time give no ratios.
  if (forward <= 0) return times;
  const double interval = forward / actors;
  // Transfer times are unknown. An order that leaves this much time for them is within one percent
  // of the best, even on links that cost nothing.
  return {1,
          input_grad / forward,
          weight_grad / forward,
          scores / interval,
          grads / interval,
          embedding / 2 / interval,
          times.min_transfer,
          times.min_transfer};
}

}  // namespace weft::mesh
