#include "mesh/costs/internal/stage_memory.h"

#include <algorithm>
#include <set>

#include "mesh/program/recomputation.h"
#include "mesh/program/step_order.h"

namespace weft::mesh {
namespace {

double bytes_on(const Partition& partition, MeshId mesh, LocalId local, int rank) {
  const LocalValue& value = partition.per_mesh[mesh].locals[local];
  const TensorType& type = partition.graph.value(value.value).type;
  return TensorType{type.dtype, local_shape(type.shape, value.spec, partition.meshes[mesh], rank)}
      .bytes();
}

/// Values, except parameters, that a stage's backward reads: all, and those read by W.
struct BackwardReads {
  std::set<LocalId> all, by_weight_grads;
};

BackwardReads backward_reads(const MeshPartition& part, StageId stage) {
  BackwardReads reads;
  for (const Step& step : part.steps) {
    if (step.stage != stage || step.pass == Pass::kForward) continue;
    for (const LocalId input : inputs_of(step)) {
      if (part.locals[input].origin == LocalOrigin::kParameter) continue;
      reads.all.insert(input);
      if (step.pass == Pass::kWeightGrad) reads.by_weight_grads.insert(input);
    }
  }
  return reads;
}

/// Values of the output layer on the spanning mesh.
struct ScoreValues {
  std::set<LocalId> made;           ///< Made or received by an S before its exchange.
  std::set<LocalId> read_late;      ///< Read by the steps of an S that follow its exchange.
  std::set<LocalId> read_by_grads;  ///< Read by T.
};

ScoreValues score_values(const MeshPartition& part, StageId output, int vocabulary_barriers) {
  const std::vector<std::size_t> deferred = deferred_score_steps(part, output, vocabulary_barriers);
  const std::set<std::size_t> late(deferred.begin(), deferred.end());
  ScoreValues values;
  for (std::size_t i = 0; i < part.steps.size(); ++i) {
    const Step& step = part.steps[i];
    if (step.stage != output) continue;
    const bool is_late = late.contains(i), first = step.pass == Pass::kForward && !is_late;
    if (first)
      for (const LocalId made : outputs_of(step)) values.made.insert(made);
    for (const LocalId read : inputs_of(step)) {
      const LocalOrigin origin = part.locals[read].origin;
      if (origin == LocalOrigin::kParameter) continue;
      if (first && origin == LocalOrigin::kReceived) values.made.insert(read);
      if (is_late) values.read_late.insert(read);
      else if (!first) values.read_by_grads.insert(read);
    }
  }
  return values;
}

}  // namespace

double local_bytes(const Partition& partition, MeshId mesh, LocalId local) {
  double most = 0;
  for (int rank = 0; rank < partition.meshes[mesh].size(); ++rank) {
    most = std::max(most, bytes_on(partition, mesh, local, rank));
  }
  return most;
}

StageMemory stage_memory(const Partition& partition, StageId stage) {
  const MeshId mesh = partition.mesh_of_stage[stage];
  const MeshPartition& part = partition.per_mesh[mesh];
  const BackwardReads reads = backward_reads(part, stage);
  const std::set<LocalId> dropped = recomputed_steps(part, stage).dropped;
  const auto made_by = [&](LocalId local) {
    const auto producer = partition.graph.value(part.locals[local].value).producer;
    return producer ? partition.graph.node(*producer).pass : Pass::kForward;
  };
  StageMemory most;
  for (int rank = 0; rank < partition.meshes[mesh].size(); ++rank) {
    StageMemory own;
    for (const LocalId local : reads.all) {
      const double bytes = bytes_on(partition, mesh, local, rank);
      const Pass pass = made_by(local);
      if (pass == Pass::kForward) own.activations += bytes;
      if (pass == Pass::kForward && !dropped.contains(local)) own.retained_for_recompute += bytes;
      if (pass != Pass::kWeightGrad && reads.by_weight_grads.contains(local))
        own.for_weight_grad += bytes;
    }
    if (rank == 0 || own.activations > most.activations) most = own;
  }
  return most;
}

VocabularyMemory vocabulary_memory(const Partition& partition, int vocabulary_barriers) {
  const MeshId mesh = *partition.spanning_mesh();
  const auto& [output, input] = *partition.vocabulary;
  const ScoreValues values = score_values(partition.per_mesh[mesh], output, vocabulary_barriers);
  VocabularyMemory memory;
  for (const LocalId local : values.made) {
    if (values.read_by_grads.contains(local)) memory.scores += local_bytes(partition, mesh, local);
    else if (values.read_late.contains(local))
      memory.partial += local_bytes(partition, mesh, local);
  }
  if (!input) return memory;
  for (const MeshEdge& edge : partition.edges)
    if (edge.from_mesh == mesh && edge.from_stage == *input)
      memory.embedded += local_bytes(partition, mesh, edge.source);
  return memory;
}

}  // namespace weft::mesh
