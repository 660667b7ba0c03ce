#include "mesh/partition/placement.h"

#include <set>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

void check_stages(const Graph& graph, const StageCut& cut) {
  if (std::ssize(cut.stage_of_block) != graph.num_blocks()) {
    throw_error(ErrorCode::kInvalidConfig, "the model has {} blocks but the stages cover {}",
                graph.num_blocks(), cut.stage_of_block.size());
  }
  const std::set<StageId> stages(cut.stage_of_block.begin(), cut.stage_of_block.end());
  if (stages.size() != cut.mesh_of_stage.size()) {
    throw_error(ErrorCode::kInvalidConfig,
                "there are {} stages, but only {} contain blocks of the model; give each stage at "
                "least one",
                cut.mesh_of_stage.size(), stages.size());
  }
}

}  // namespace

IndexedVector<NodeId, StageId> place_nodes(const Graph& graph, const StageCut& cut) {
  check_stages(graph, cut);
  IndexedVector<NodeId, StageId> stage_of_node;
  for (const Node& node : graph.nodes()) {
    StageId stage = cut.stage_of_block[node.block];
    if (node.op.kind == OpKind::kAdd && node.pass == Pass::kInputGrad) {
      std::set<StageId> terms;
      for (const ValueId input : node.inputs) {
        const auto producer = graph.value(input).producer;
        terms.insert(producer ? stage_of_node[*producer] : stage);
      }
      if (terms.size() == 1) stage = *terms.begin();
    }
    stage_of_node.push_back(stage);
  }
  return stage_of_node;
}

std::vector<NodeId> nodes_on(MeshId mesh, const IndexedVector<NodeId, StageId>& stage_of_node,
                             const StageCut& cut) {
  std::vector<NodeId> nodes;
  for (const NodeId node : stage_of_node.ids())
    if (cut.mesh_of_stage[stage_of_node[node]] == mesh) nodes.push_back(node);
  return nodes;
}

}  // namespace weft::mesh
