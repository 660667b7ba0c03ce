#include "mesh/program/checkpoint_programs.h"

#include <array>
#include <utility>

#include "mesh/program/emitter.h"

namespace weft::mesh {
namespace {

/// Starts one side's part of a transfer on a block that stays.
void start_part(Emitter& emitter, const transfer::ReshardPlan& plan, transfer::DeviceId device, const std::string& block,
                std::uint32_t op, const TensorType& type, bool is_source) {
  transfer::DevicePart part = plan.device_part(device);
  const std::uint32_t buffer = emitter.add_persistent_buffer(emitter.persistent(block, type.bytes()), 0, type);
  if (part.empty()) return;
  const std::uint32_t transfer = emitter.add_transfer({block, TransferKind::kCheckpoint, op, std::move(part)});
  const auto source = is_source ? std::optional(buffer) : std::nullopt;
  const auto destination = is_source ? std::nullopt : std::optional(buffer);
  emitter.start(transfer, -1, source, destination);
}

}  // namespace

std::vector<std::string> checkpoint_blocks(const std::string& parameter) {
  return {"parameter/" + parameter, "first_moment/" + parameter, "second_moment/" + parameter};
}

std::vector<Program> compile_checkpoint(const Partition& partition, CheckpointDirection direction, transfer::DeviceId driver,
                                        const transfer::Topology& topology) {
  const bool gather = direction == CheckpointDirection::kGather;
  const std::string name = gather ? "gather" : "scatter";
  Emitter driver_emitter(name, driver, "driver");
  std::vector<Emitter> emitters;
  std::uint32_t op = 0;
  for (std::size_t m = 0; m < partition.meshes.size(); ++m) {
    const DeviceMesh& mesh = partition.meshes[m];
    const std::size_t first = emitters.size();
    for (int rank = 0; rank < mesh.size(); ++rank) {
      emitters.emplace_back(name, mesh.devices()[static_cast<std::size_t>(rank)], device_name(mesh, rank));
    }
    for (const LocalParameter& parameter : partition.per_mesh[m].parameters) {
      if (gather && !parameter.is_home) continue;  // All copies are equal.
      const LocalValue& local = partition.per_mesh[m].locals[parameter.value.value()];
      const Value& value = partition.graph.value(local.value);
      const transfer::ShardMap whole{value.type.shape, {{driver, Region::whole(value.type.shape)}}};
      const transfer::ShardMap shards = shard_map(value.type.shape, local.spec, mesh);
      const transfer::ReshardTask task{value.type, gather ? shards : whole, gather ? whole : shards};
      const transfer::ReshardPlan plan =
          transfer::plan_reshard(task, topology, gather ? transfer::Strategy::kSendRecv : transfer::Strategy::kWeft);
      for (const std::string& block : checkpoint_blocks(value.name)) {
        for (int rank = 0; rank < mesh.size(); ++rank) {
          const TensorType type{value.type.dtype, local_shape(value.type.shape, local.spec, mesh, rank)};
          start_part(emitters[first + static_cast<std::size_t>(rank)], plan, mesh.devices()[static_cast<std::size_t>(rank)],
                     block, op, type, gather);
        }
        start_part(driver_emitter, plan, driver, block, op, value.type, !gather);
        ++op;
      }
    }
  }
  std::vector<Program> programs;
  emitters.push_back(std::move(driver_emitter));
  for (Emitter& emitter : emitters) {
    emitter.wait_for_all();
    programs.push_back(emitter.finish());
  }
  validate(programs);
  return programs;
}

}  // namespace weft::mesh
