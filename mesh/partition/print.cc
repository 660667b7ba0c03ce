#include <fmt/format.h>

#include "mesh/partition/partition.h"

namespace weft::mesh {
namespace {

std::string local_text(const Partition& partition, MeshId mesh, LocalId id) {
  const LocalValue& local = partition.per_mesh[mesh].locals[id];
  const Value& value = partition.graph.value(local.value);
  return fmt::format("{} {}{}", value.name, to_string(value.type),
                     to_string(local.spec, partition.meshes[mesh]));
}

std::string locals_text(const Partition& partition, MeshId mesh, const std::vector<LocalId>& ids) {
  std::string text;
  for (const LocalId id : ids) text += (text.empty() ? "" : ", ") + local_text(partition, mesh, id);
  return text;
}

std::string step_text(const Partition& partition, MeshId mesh, const Step& step) {
  if (const auto* compute = std::get_if<ComputeStep>(&step.what)) {
    return fmt::format("{} = {}({})", locals_text(partition, mesh, compute->outputs),
                       to_string(partition.graph.node(compute->node).op),
                       locals_text(partition, mesh, compute->inputs));
  }
  const auto& [input, output, move] = std::get<MoveStep>(step.what);
  return fmt::format("{} = {}<{}>({})", local_text(partition, mesh, output), to_string(move.kind),
                     axes_text(move.axes, partition.meshes[mesh]),
                     local_text(partition, mesh, input));
}

}  // namespace

std::string to_string(const Partition& partition) {
  std::string text;
  for (const MeshId mesh : partition.meshes.ids()) {
    text += fmt::format("mesh {}\n", to_string(partition.meshes[mesh]));
    for (const Step& step : partition.per_mesh[mesh].steps) {
      text += fmt::format("  stage {} {} {}\n", step.stage, to_string(step.pass),
                          step_text(partition, mesh, step));
    }
  }
  for (const MeshEdge& edge : partition.edges) {
    text += fmt::format("edge {} {} of stage {} -> {} of stage {}\n", to_string(edge.pass),
                        local_text(partition, edge.from_mesh, edge.source), edge.from_stage,
                        local_text(partition, edge.to_mesh, edge.destination), edge.to_stage);
  }
  return text;
}

}  // namespace weft::mesh
