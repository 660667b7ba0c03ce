#pragma once

#include <optional>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/graph/graph.h"

namespace weft::mesh {

/// Stage of a model, numbered in the order of its blocks, as in schedules.
using StageId = StrongId<struct StageTag, int>;
/// Mesh, numbered in the order of the run file.
using MeshId = StrongId<struct MeshTag, int>;

/// Stages of a shared vocabulary, on a mesh that spans all other meshes: same devices, own axes.
/// Every actor runs its devices' part where its list says so (Vocabulary Parallelism, arXiv
/// 2411.05288). Numbered after the stages that schedules count.
struct VocabularyStages {
  StageId output;                ///< The output layer and the loss: S and T.
  std::optional<StageId> input;  ///< The embedding: IF and IB.
  friend bool operator==(const VocabularyStages&, const VocabularyStages&) = default;
};

/// Assignment of the model's blocks to stages, and of stages to meshes.
struct StageCut {
  IndexedVector<StageId, MeshId> mesh_of_stage;
  std::vector<StageId> stage_of_block;  ///< Stage of each block.
  std::optional<VocabularyStages> vocabulary = {};
};

/// Assigns nodes to stages. A node belongs to the stage of its block, with one exception: if all
/// terms of a gradient's sum come from one other stage, they are added there, so that only their
/// sum is sent. Throws Error(kInvalidConfig) unless `cut` covers the graph's blocks and every stage
/// has one.
IndexedVector<NodeId, StageId> place_nodes(const Graph& graph, const StageCut& cut);

/// Returns the nodes on a mesh, ascending.
std::vector<NodeId> nodes_on(MeshId mesh, const IndexedVector<NodeId, StageId>& stage_of_node,
                             const StageCut& cut);

}  // namespace weft::mesh
