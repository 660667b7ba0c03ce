#include "mesh/program/internal/mesh_compiler.h"

#include <set>
#include <string>

#include "mesh/program/parameter_blocks.h"

namespace weft::mesh {
namespace {

/// Returns the values that leave the mesh.
std::set<LocalId> sent_values(MeshId mesh, const std::vector<PlannedEdge>& edges) {
  std::set<LocalId> sent;
  for (const PlannedEdge& planned : edges)
    if (planned.edge.from_mesh == mesh) sent.insert(planned.edge.source);
  return sent;
}

/// Returns the stages whose REDUCE_GRAD the schedule names.
std::set<StageId> reduced_stages(const Schedule& schedule) {
  std::set<StageId> stages;
  for (const std::vector<Action>& actions : schedule.actors)
    for (const Action& action : actions)
      if (action.kind == ActionKind::kReduceGrad) stages.insert(StageId(action.stage));
  return stages;
}

MeshBuffers& add_buffers(BuffersOfMeshes& all, MeshView mesh, const MeshEmitters& emitters) {
  return *all[all.push_back(std::make_unique<MeshBuffers>(mesh, emitters))];
}

}  // namespace

MeshCompiler::MeshCompiler(const CompileInputs& inputs, MeshId id, TransferNumbers& numbers,
                           std::map<transfer::DeviceId, Emitter>& all_emitters,
                           BuffersOfMeshes& all_buffers)
    : mesh(inputs.partition, id),
      lowering(inputs.options.lowering),
      emitters(mesh.mesh(), inputs.actors[id], inputs.options.name, inputs.topology, numbers,
               all_emitters),
      buffers(add_buffers(all_buffers, mesh, emitters)),
      sums(mesh, emitters, sent_values(id, inputs.edges), inputs.schedule, inputs.topology,
           inputs.options.network),
      copies(mesh.part()),
      reduction(mesh, emitters, sums, inputs.topology, lowering, reduced_stages(inputs.schedule)),
      terms(mesh, emitters, sums, reduction, inputs.terms, lowering),
      edges(mesh, emitters, all_buffers, inputs.edges, inputs.lanes, inputs.options),
      steps(mesh, inputs.schedule, emitters.actor_of(0), inputs.options.recompute),
      lists(mesh, steps, copies, sums, reduction, sent_values(id, inputs.edges),
            reduced_stages(inputs.schedule), inputs.schedule, inputs.topology, inputs.options),
      actions(mesh, emitters, inputs.schedule, steps, copies, lists, buffers, sums, reduction,
              terms, edges, inputs.options) {}

void MeshCompiler::emit_gradients() {
  terms.finish();
  const std::vector<std::vector<std::uint32_t>> gradients = terms.add_up();
  const auto& parameters = mesh.part().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const LocalParameter& parameter = parameters[i];
    const Parameter& logical = mesh.partition().graph.parameters()[parameter.parameter];
    const Value& value = mesh.value(parameter.value);
    const Spec& spec = mesh.local(parameter.value).spec;
    const std::vector<std::string> blocks = optimizer_blocks(value.name);
    for (const int rank : emitters.all_ranks()) {
      Emitter& emitter = emitters[rank];
      const TensorType type = mesh.state_type(parameter.value, rank);
      const auto state = [&](std::size_t block) {
        return emitter.add_persistent_buffer(emitter.persistent(blocks[block], type.bytes()), 0,
                                             type);
      };
      const std::uint32_t read = buffers.parameter(parameter.value, rank);
      const bool copied = value.type.dtype != DType::kF32;
      emitter.add_parameter(
          {value.name, static_cast<std::uint32_t>(parameter.parameter), logical.shape,
           mesh.region(parameter.value, rank), static_cast<std::uint8_t>(logical.initializer.kind),
           logical.initializer.standard_deviation, logical.decay,
           parameter.is_home && is_first_replica(spec, mesh.mesh(), rank), copied ? state(0) : read,
           gradients[i][rank], state(1), state(2), copied ? static_cast<std::int32_t>(read) : -1});
    }
  }
}

}  // namespace weft::mesh
