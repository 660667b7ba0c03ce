#pragma once

#include <optional>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/graph/graph.h"

namespace weft::mesh {

/// A stage of a model, in the order of its blocks; schedules count them alike.
using StageId = StrongId<struct StageTag, int>;
/// A mesh, in the order of the run file.
using MeshId = StrongId<struct MeshTag, int>;

/// Stages on a mesh that spans the meshes of all others: same devices, axes of its own. Every actor
/// runs its devices' part when its list says so (Vocabulary Parallelism, arXiv 2411.05288). They
/// come after the stages that schedules count.
struct VocabularyStages {
  StageId output;                ///< The output layer and the loss: S and T.
  std::optional<StageId> input;  ///< The embedding: IF and IB.
  friend bool operator==(const VocabularyStages&, const VocabularyStages&) = default;
};

/// Which part of a model a stage has, and where stages lie.
struct StageCut {
  IndexedVector<StageId, MeshId> mesh_of_stage;
  std::vector<StageId> stage_of_block;  ///< One entry per block.
  std::optional<VocabularyStages> vocabulary = {};
};

/// A node belongs to the stage of its block. But where all terms of a gradient's sum come from one
/// other stage, they are added there, so that one tensor travels and not each term. Throws
/// Error(kInvalidConfig) unless the blocks are the graph's, and every stage has one.
IndexedVector<NodeId, StageId> place_nodes(const Graph& graph, const StageCut& cut);

/// Those that lie on a mesh. Ascending.
std::vector<NodeId> nodes_on(MeshId mesh, const IndexedVector<NodeId, StageId>& stage_of_node,
                             const StageCut& cut);

}  // namespace weft::mesh
