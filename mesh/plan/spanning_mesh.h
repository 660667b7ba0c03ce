#pragma once

#include "mesh/layouts/rules.h"
#include "mesh/partition/partition.h"
#include "mesh/plan/layout_config.h"

namespace weft::mesh {

/// The axis of a spanning mesh that splits the vocabulary.
inline constexpr const char* kVocabularyAxis = "vocab";

/// The mesh "vocab" of all devices of `meshes`, in the order of the stages that lie on them: its
/// axis `vocab` splits the vocabulary (Vocabulary Parallelism, arXiv 2411.05288). Where every mesh
/// has an axis `data` of the same size, so has this one, and each of its slices has the devices of
/// that slice of the others. Throws Error(kInvalidConfig), whose where() is "pipeline.vocabulary",
/// for fewer than two meshes.
DeviceMesh make_spanning_mesh(const LayoutConfig& layout,
                              const IndexedVector<MeshId, DeviceMesh>& meshes);

/// How tensors are split on it.
ShardingRules spanning_rules();
FeatureSplits spanning_splits(const DeviceMesh& spanning, VocabularyMode mode);

/// What its passes take beside those of a stage, by the work of their ops: for the order in which a
/// schedule has them. Of a partition without one the defaults.
VocabularyTimes vocabulary_times(const Partition& partition, const LayoutConfig& layout);

}  // namespace weft::mesh
