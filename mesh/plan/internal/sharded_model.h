#pragma once

#include "mesh/layouts/feature_kind.h"
#include "mesh/partition/partition.h"
#include "mesh/plan/parallel_config.h"

namespace weft::mesh {

/// Returns how the layout of a mesh splits features, for split_graph().
FeatureSplits splits_of(const MeshConfig& config, const DeviceMesh& mesh);

/// Returns the sharding of a mesh's part of the graph. Throws Error(kInvalidConfig) with where()
/// "meshes.NAME.layout" if the layout does not fit the graph.
ShardingStrategy strategy_on(const MeshGraph& part, MeshId mesh, const ParallelConfig& layout);

/// Sets graph, stages and strategies of a request whose meshes are set: the model, transformed for
/// the layouts of the meshes. Throws like strategy_on().
void set_graph(PartitionRequest& request, TrainingGraph model, const ParallelConfig& layout);

}  // namespace weft::mesh
