#include "mesh/plan/internal/sharded_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mesh/layouts/separate_vocabulary.h"
#include "mesh/layouts/split_graph.h"
#include "mesh/plan/spanning_mesh.h"

namespace weft::mesh {
namespace {

/// Calls `decide` for a mesh. Errors about "layout" get the key of the mesh's layout.
template <typename Decide>
auto with_mesh_errors(const MeshConfig& mesh, const Decide& decide) {
  try {
    return decide();
  } catch (const Error& error) {
    if (error.where() != "layout") throw;
    throw Error(error.code(), error.message()).at("meshes." + mesh.name + ".layout");
  }
}

bool is_spanning(MeshId mesh, const ParallelConfig& layout) {
  return mesh.value() >= std::ssize(layout.meshes);
}

/// Moves the vocabulary's layers from the first and last stage to the spanning mesh.
TrainingGraph share_vocabulary(PartitionRequest& request, const TrainingGraph& model,
                               const ParallelConfig& layout) {
  SeparatedVocabulary separated = separate_vocabulary(model);
  const MeshId spanning(std::ssize(layout.meshes));
  StageCut& cut = request.cut;
  cut.vocabulary = VocabularyStages{cut.mesh_of_stage.push_back(spanning), {}};
  cut.stage_of_block.push_back(cut.vocabulary->output);
  if (separated.input) {
    cut.vocabulary->input = cut.mesh_of_stage.push_back(spanning);
    cut.stage_of_block.insert(cut.stage_of_block.begin(), *cut.vocabulary->input);
  }
  return std::move(separated.graph);
}

}  // namespace

FeatureSplits splits_of(const MeshConfig& config, const DeviceMesh& mesh) {
  if (config.own_strategy) return config.own_strategy->splits;
  return config.layout ? feature_splits(*config.layout, mesh) : FeatureSplits();
}

ShardingStrategy strategy_on(const MeshGraph& part, MeshId mesh, const ParallelConfig& layout) {
  if (is_spanning(mesh, layout)) return rules_strategy(part, spanning_rules());
  const MeshConfig& config = layout.meshes[mesh.value()];
  return with_mesh_errors(config, [&] {
    if (config.own_strategy) return strategy_of(part, *config.own_strategy);
    return config.layout ? layout_strategy(part, *config.layout)
                         : rules_strategy(part, layout.sharding);
  });
}

void set_graph(PartitionRequest& request, TrainingGraph model, const ParallelConfig& layout) {
  request.cut = {};
  for (const int mesh : layout.mesh_of_stage()) request.cut.mesh_of_stage.push_back(MeshId(mesh));
  for (const int stage : layout.stage_of_layer()) request.cut.stage_of_block.emplace_back(stage);
  if (layout.vocabulary != VocabularyMode::kLast) model = share_vocabulary(request, model, layout);
  std::vector<FeatureSplits> by_block;
  for (const StageId stage : request.cut.stage_of_block) {
    const MeshId mesh = request.cut.mesh_of_stage[stage];
    const DeviceMesh& devices = request.meshes[mesh];
    if (is_spanning(mesh, layout)) {
      by_block.push_back(spanning_splits(devices, layout.vocabulary));
      continue;
    }
    const MeshConfig& config = layout.meshes[mesh.value()];
    by_block.push_back(with_mesh_errors(config, [&] { return splits_of(config, devices); }));
  }
  if (std::ranges::any_of(by_block, &FeatureSplits::any)) {
    // Attributes sizes that do not divide to the first mesh that splits features.
    MeshId first(0);
    for (std::size_t block = by_block.size(); block-- > 0;) {
      const MeshId mesh = request.cut.mesh_of_stage[request.cut.stage_of_block[block]];
      if (by_block[block].any() && !is_spanning(mesh, layout)) first = mesh;
    }
    model = with_mesh_errors(layout.meshes[first.value()],
                             [&] { return split_graph(model, by_block); });
  }
  request.graph = std::move(model.graph);
  request.loss = model.loss;
  request.gradients = std::move(model.gradients);
  const auto stage_of_node = place_nodes(request.graph, request.cut);
  request.strategies = {};
  for (const MeshId mesh : request.meshes.ids()) {
    const MeshGraph part{request.graph, request.meshes[mesh],
                         nodes_on(mesh, stage_of_node, request.cut)};
    request.strategies.push_back(strategy_on(part, mesh, layout));
  }
}

}  // namespace weft::mesh
