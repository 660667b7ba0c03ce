#include "mesh/plan/training_plan.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "mesh/plan/internal/sharded_model.h"

namespace weft::mesh {
namespace {

actors::MeshRequest request_of(const MeshConfig& mesh) {
  actors::MeshRequest request;
  request.mesh = mesh.name;
  request.shape = MeshShape(mesh.axes);
  request.hosts = mesh.hosts;
  return request;
}

}  // namespace

std::vector<const std::vector<Program>*> TrainingPlan::all_programs() const {
  std::vector<const std::vector<Program>*> all = {&train.programs, &validate.programs};
  for (const CheckpointBatch& batch : checkpoint)
    all.insert(all.end(), {&batch.gather, &batch.scatter});
  if (!checkpoint_copy.empty()) all.push_back(&checkpoint_copy);
  if (!snapshots.empty())
    for (const InMemoryCheckpoint::Slot& slot : snapshots.slots)
      all.insert(all.end(),
                 {&slot.snapshot, &slot.replicate_to_backup, &slot.restore_from_snapshot});
  return all;
}

MeshPlaces predict_places(const ParallelConfig& layout,
                          const std::vector<std::pair<std::string, std::uint32_t>>& hosts) {
  actors::ResourceAllocator allocator;
  for (const auto& [name, devices] : hosts) allocator.add_host(name, devices);
  MeshPlaces places;
  for (const MeshConfig& mesh : layout.meshes) {
    try {
      places.push_back(allocator.find_places(request_of(mesh)));
    } catch (const Error& error) {
      throw Error(error.code(), error.message()).at("meshes." + mesh.name);
    }
    for (std::uint32_t rank = 0; rank < places.back().size(); ++rank)
      allocator.assign({mesh.name, 1}, rank, places.back()[rank], request_of(mesh));
  }
  return places;
}

DeviceNumbering number_devices(const ParallelConfig& layout, const MeshPlaces& places) {
  DeviceNumbering result;
  std::vector<std::string>& hosts = result.hosts;
  std::uint32_t next = 0;
  for (std::size_t m = 0; m < layout.meshes.size(); ++m) {
    std::vector<transfer::DeviceId> devices;
    for (const actors::HostDevice& place : places[m]) {
      auto host = std::find(hosts.begin(), hosts.end(), place.host);
      if (host == hosts.end()) host = hosts.insert(hosts.end(), place.host);
      result.topology.host_of_device.emplace_back(host - hosts.begin());
      devices.emplace_back(next++);
    }
    result.meshes.push_back(
        DeviceMesh(layout.meshes[m].name, layout.meshes[m].axes, std::move(devices)));
  }
  result.topology.host_of_device.emplace_back(hosts.size());
  hosts.emplace_back("driver");
  return result;
}

std::string write_strategy(const TrainingPlan& plan, MeshId mesh) {
  const Partition& partition = plan.partition;
  const DeviceMesh& devices = partition.meshes[mesh];
  const MeshGraph part{
      partition.graph, devices,
      nodes_on(mesh, partition.stage_of_node, {partition.mesh_of_stage, partition.stage_of_block})};
  return write_strategy(part, strategy_on(part, mesh, plan.layout),
                        splits_of(plan.layout.meshes[mesh.value()], devices));
}

std::string digest_of_steps(const TrainingPlan& plan) {
  std::string digests;
  for (const auto* programs : {&plan.train.programs, &plan.validate.programs}) {
    for (const Program& program : *programs) digests += sha256(encode(program));
  }
  return sha256(std::as_bytes(std::span(digests)));
}

void check_compatible_layouts(const ParallelConfig& running, const ParallelConfig& other) {
  const auto differs = [&](const char* what) {
    throw_error(ErrorCode::kInvalidArgument,
                "the running job has other {}; restart it to change them", what);
  };
  const auto same_mesh = [](const MeshConfig& a, const MeshConfig& b) {
    return a.name == b.name && a.axes == b.axes;
  };
  const auto same_layout = [](const MeshConfig& a, const MeshConfig& b) {
    return a.layout == b.layout && a.own_strategy == b.own_strategy;
  };
  if (!std::ranges::equal(running.meshes, other.meshes, same_mesh)) differs("meshes");
  if (!std::ranges::equal(running.meshes, other.meshes, same_layout)) differs("layouts");
  if (running.sharding.axes != other.sharding.axes) differs("rules for sharding");
  if (running.mesh_of_stage() != other.mesh_of_stage()) differs("stages on its meshes");
  if (running.stage_of_layer() != other.stage_of_layer()) differs("layers in its stages");
  if (running.step_microbatches() != other.step_microbatches()) differs("microbatches");
  if (running.vocabulary != other.vocabulary) differs("vocabulary passes");
}

}  // namespace weft::mesh
