#include "mesh/plan/training_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/program/checkpoint_programs.h"
#include "mesh/schedules/named_schedules.h"

namespace weft::mesh {
namespace {

actors::MeshRequest request_of(const MeshConfig& mesh) {
  actors::MeshRequest request;
  request.mesh = mesh.name;
  std::vector<actors::MeshShape::Axis> shape;
  for (const MeshAxis& axis : mesh.axes) shape.push_back({axis.name, axis.size});
  request.shape = actors::MeshShape(std::move(shape));
  request.hosts = mesh.hosts;
  return request;
}

/// Numbers devices and hosts.
std::vector<DeviceMesh> number_devices(const LayoutConfig& layout, const MeshPlaces& places, TrainingPlan& plan) {
  std::vector<DeviceMesh> meshes;
  std::uint32_t next = 0;
  for (std::size_t m = 0; m < layout.meshes.size(); ++m) {
    std::vector<transfer::DeviceId> devices;
    for (const actors::DevicePlace& place : places[m]) {
      auto host = std::find(plan.hosts.begin(), plan.hosts.end(), place.host);
      if (host == plan.hosts.end()) host = plan.hosts.insert(plan.hosts.end(), place.host);
      plan.topology.host_of_device.emplace_back(static_cast<std::uint32_t>(host - plan.hosts.begin()));
      devices.emplace_back(next++);
    }
    meshes.emplace_back(layout.meshes[m].name, layout.meshes[m].axes, std::move(devices));
  }
  plan.topology.host_of_device.emplace_back(static_cast<std::uint32_t>(plan.hosts.size()));
  plan.hosts.emplace_back("driver");
  return meshes;
}

transfer::Network network_of(const LayoutConfig& layout, const std::vector<std::string>& hosts) {
  transfer::Network network = transfer::Network::uniform(hosts.size(), LayoutConfig::kUnknownLink);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (const auto link = layout.links.find(hosts[i]); link != layout.links.end())
      network.hosts[i] = {{transfer::Nic{link->second, link->second}}};
  return network;
}

void check_layers(const LayoutConfig& layout, const Graph& graph) {
  if (layout.num_layers() == graph.num_blocks()) return;
  throw_error(ErrorCode::kInvalidConfig,
              "the stages have {} layers together, but the model has {}; change pipeline.stages or the model",
              layout.num_layers(), graph.num_blocks());
}

/// `network` absent: the layout's.
TrainingPlan make_plan(const LayoutConfig& layout, const ModelGraphs& model, const MeshPlaces& places,
                       const transfer::Network* network) {
  check_layers(layout, model.train.graph);
  TrainingPlan plan;
  plan.layout = layout;
  PartitionRequest request;
  request.meshes = number_devices(layout, places, plan);
  plan.network = network != nullptr ? *network : network_of(layout, plan.hosts);
  request.mesh_of_stage = layout.mesh_of_stage();
  request.stage_of_block = layout.stage_of_layer();
  request.rules = layout.sharding;
  request.graph = model.train.graph;
  request.loss = model.train.loss;
  request.gradients = model.train.gradients;
  plan.partition = partition(request);
  const int stages = static_cast<int>(layout.stages.size());
  CompileOptions options;
  options.strategy = layout.resharding;
  options.credits = layout.credits;
  options.network = plan.network;
  plan.train = compile(plan.partition, make_schedule(layout.schedule, stages, layout.microbatches), plan.topology, options);

  request.graph = model.validate;
  request.loss = model.validate_loss;
  request.gradients.clear();
  options.name = "validate";
  plan.validate = compile(partition(request), make_forward_schedule(stages, layout.microbatches), plan.topology, options);
  plan.gather = compile_checkpoint(plan.partition, CheckpointDirection::kGather, plan.driver(), plan.topology);
  plan.scatter = compile_checkpoint(plan.partition, CheckpointDirection::kScatter, plan.driver(), plan.topology);
  return plan;
}

}  // namespace

MeshPlaces plan_places(const LayoutConfig& layout, const std::vector<std::pair<std::string, std::uint32_t>>& hosts) {
  actors::Placement placement;
  for (const auto& [name, devices] : hosts) placement.add_host(name, devices);
  MeshPlaces places;
  for (const MeshConfig& mesh : layout.meshes) places.push_back(placement.take(request_of(mesh), {mesh.name, 1}));
  return places;
}

TrainingPlan make_training_plan(const LayoutConfig& layout, const ModelGraphs& model, const MeshPlaces& places) {
  return make_plan(layout, model, places, nullptr);
}

TrainingPlan make_training_plan(const LayoutConfig& layout, const ModelGraphs& model, const MeshPlaces& places,
                                const transfer::Network& network) {
  return make_plan(layout, model, places, &network);
}

std::string describe(const TrainingPlan& plan, bool programs) {
  std::string text = "meshes\n";
  for (const DeviceMesh& mesh : plan.partition.meshes) {
    text += fmt::format("  {}:", to_string(mesh));
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const transfer::DeviceId device = mesh.devices()[static_cast<std::size_t>(rank)];
      text +=
          fmt::format(" {}=device {} on {}", device_name(mesh, rank), device, plan.hosts[plan.topology.host_of(device).value()]);
    }
    text += "\n";
  }
  text += fmt::format("\nstages (schedule {}, {} microbatches)\n", plan.layout.schedule, plan.layout.microbatches);
  for (std::size_t stage = 0; stage < plan.layout.stages.size(); ++stage) {
    const auto m = static_cast<std::size_t>(plan.layout.stages[stage].mesh);
    std::int64_t elements = 0;
    for (const LocalParameter& parameter : plan.partition.per_mesh[m].parameters) {
      elements += plan.partition.graph.value(plan.partition.per_mesh[m].locals[parameter.value.value()].value).type.elements();
    }
    text += fmt::format("  {}: {} layers on {}, {} parameters in {} tensors\n", stage, plan.layout.stages[stage].layers,
                        plan.partition.meshes[m].name(), elements, plan.partition.per_mesh[m].parameters.size());
  }
  text += "\nparameters\n";
  for (std::size_t m = 0; m < plan.partition.meshes.size(); ++m) {
    for (const LocalParameter& parameter : plan.partition.per_mesh[m].parameters) {
      const LocalValue& local = plan.partition.per_mesh[m].locals[parameter.value.value()];
      const Value& value = plan.partition.graph.value(local.value);
      text += fmt::format("  {:<32} {:<18} {} {}\n", value.name, to_string(value.type), plan.partition.meshes[m].name(),
                          to_string(local.spec, plan.partition.meshes[m]));
    }
  }
  text += fmt::format("\nresharding ({}), per microbatch\n", transfer::to_string(plan.layout.resharding));
  for (const PlannedEdge& planned : plan.train.edges) {
    const MeshEdge& edge = planned.edge;
    const Value& value = plan.partition.graph.value(edge.value);
    const auto side = [&](int mesh, LocalId local) {
      const auto m = static_cast<std::size_t>(mesh);
      return plan.partition.meshes[m].name() +
             to_string(plan.partition.per_mesh[m].locals[local.value()].spec, plan.partition.meshes[m]);
    };
    std::uint64_t sent = 0;
    for (const Program& program : plan.train.programs) sent += planned.plan.device_part(program.device).bytes_sent();
    text += fmt::format("  {} {} {}: {} -> {}, {} sent in {} flows\n", to_string(edge.pass), value.name, to_string(value.type),
                        side(edge.from_mesh, edge.source), side(edge.to_mesh, edge.destination), format_bytes(sent),
                        planned.plan.flows.size());
  }
  text += "\ndevices\n";
  for (const Program& program : plan.train.programs) {
    std::uint64_t persistent = 0;
    for (const Persistent& block : program.persistents) persistent += block.bytes;
    text += fmt::format("  {:<16} {} instructions a step, {} parameters, gradients and moments, {} activations\n",
                        program.device_name, program.instructions.size(), format_bytes(persistent),
                        format_bytes(program.arena_bytes));
  }
  if (programs) {
    for (const Program& program : plan.train.programs) text += "\n" + to_string(program);
  }
  return text;
}

}  // namespace weft::mesh
