#pragma once

#include "mesh/layouts/rules.h"
#include "mesh/partition/partition.h"
#include "mesh/plan/parallel_config.h"

namespace weft::mesh {

/// Axis of a spanning mesh that splits the vocabulary.
inline constexpr const char* kVocabularyAxis = "vocab";

/// Returns the mesh "vocab" of all devices of `meshes`, in the order of their stages. Its axis
/// `vocab` splits the vocabulary (Vocabulary Parallelism, arXiv 2411.05288). If every mesh has an
/// axis `data` of the same size, so has this one, and each of its slices consists of the same
/// slices of the meshes. Throws Error(kInvalidConfig) with where() "pipeline.vocabulary" for fewer
/// than two meshes.
DeviceMesh make_spanning_mesh(const ParallelConfig& layout,
                              const IndexedVector<MeshId, DeviceMesh>& meshes);

/// Sharding of tensors on a spanning mesh.
ShardingRules spanning_rules();
FeatureSplits spanning_splits(const DeviceMesh& spanning, VocabularyMode mode);

/// Returns times of vocabulary passes relative to a stage's, by the work of their ops, for ordering
/// a schedule. Returns defaults for a partition without a shared vocabulary.
VocabularyTimes vocabulary_times(const Partition& partition, const ParallelConfig& layout);

}  // namespace weft::mesh
