#pragma once

#include <memory>
#include <vector>

#include "mesh/program/internal/action_emitter.h"
#include "mesh/program/internal/action_lists.h"
#include "mesh/program/internal/action_steps.h"
#include "mesh/program/internal/gradient_reduction.h"
#include "mesh/program/internal/gradient_sums.h"
#include "mesh/program/internal/gradient_terms.h"
#include "mesh/program/internal/mesh_buffers.h"
#include "mesh/program/internal/mesh_edges.h"
#include "mesh/program/internal/mesh_emitters.h"
#include "mesh/program/internal/mesh_view.h"
#include "mesh/program/internal/parameter_copies.h"

namespace weft::mesh {

/// Inputs of compile() and its plans of communication, which the compilers of all meshes share.
struct CompileInputs {
  const Partition& partition;
  const Schedule& schedule;
  const ActorsOfMeshes& actors;
  const std::vector<PlannedEdge>& edges;
  const std::vector<Lane>& lanes;  ///< Lanes by edge.
  const std::vector<TermTransfer>& terms;
  const transfer::Topology& topology;
  const CompileOptions& options;
};

/// Compiler of one mesh's part of its devices' programs: owns the classes that emit it. A device of
/// the spanning mesh has parts of two meshes in its program. Used once.
///
///   actions ─► lists ─► steps             steps that an action runs, and their order
///      │  ├───► edges ──► buffers         values of the microbatches
///      │  └───► terms ─► reduction ─► sums   gradients
///      └──────► sums, buffers
///   all ──────► emitters                  programs
///
/// The order of the members is the order in which they add to the programs.
struct MeshCompiler {
  /// Adds this mesh's buffers to `all_buffers`, which grows mesh by mesh.
  MeshCompiler(const CompileInputs& inputs, MeshId id, TransferNumbers& numbers,
               std::map<transfer::DeviceId, Emitter>& all_emitters, BuffersOfMeshes& all_buffers);

  /// Emits the rest of the reduction of gradients and of the exchange of terms of shared
  /// parameters, and the parameters of the update, at the end of a training step.
  void emit_gradients();

  const MeshView mesh;
  const Lowering lowering;
  const MeshEmitters emitters;
  MeshBuffers& buffers;
  GradientSums sums;
  const ParameterCopies copies;
  GradientReduction reduction;
  GradientTerms terms;
  MeshEdges edges;
  const ActionSteps steps;
  ActionLists lists;
  ActionEmitter actions;
};

using MeshCompilers = IndexedVector<MeshId, std::unique_ptr<MeshCompiler>>;

}  // namespace weft::mesh
