#include "mesh/program/internal/mesh_buffers.h"

#include "mesh/program/parameter_blocks.h"

namespace weft::mesh {

MeshBuffers::MeshBuffers(MeshView mesh, const MeshEmitters& emitters)
    : mesh_(mesh),
      emitters_(emitters),
      parameters_(emitters.size()),
      inputs_(emitters.size()),
      instances_(emitters.size()) {
  for (const LocalParameter& parameter : mesh.part().parameters) {
    for (const int rank : emitters.all_ranks()) {
      const TensorType type = mesh.local_type(parameter.value, rank);
      const std::int32_t block = emitters[rank].persistent(
          working_block(mesh.value(parameter.value).name, type.dtype), type.bytes());
      parameters_[rank][parameter.value] = emitters[rank].add_persistent_buffer(block, 0, type);
    }
  }
  for (const LocalId id : mesh.part().locals.ids()) {
    if (mesh.local(id).origin != LocalOrigin::kInput) continue;
    const Value& value = mesh.value(id);
    for (const int rank : emitters.all_ranks())
      inputs_[rank][id] =
          emitters[rank].add_input({value.name, value.type.dtype, mesh.region(id, rank)});
  }
}

std::uint32_t MeshBuffers::instance(LocalId id, int microbatch, int rank) {
  if (const auto found = parameters_[rank].find(id); found != parameters_[rank].end())
    return found->second;
  const auto found = instances_[rank].find(key(id, microbatch));
  if (found != instances_[rank].end()) return found->second;
  const std::uint32_t buffer = emitters_[rank].add_arena_buffer(mesh_.local_type(id, rank));
  instances_[rank][key(id, microbatch)] = buffer;
  if (const auto input = inputs_[rank].find(id); input != inputs_[rank].end())
    emitters_[rank].read(input->second, buffer, mesh_.local(id).once_per_step ? -1 : microbatch);
  return buffer;
}

}  // namespace weft::mesh
