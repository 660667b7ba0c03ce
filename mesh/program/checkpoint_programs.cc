#include "mesh/program/checkpoint_programs.h"

#include <array>
#include <utility>

#include "mesh/program/emitter.h"

namespace weft::mesh {
namespace {

/// Starts one side's part of a transfer on a block that stays. Gives its buffer.
std::uint32_t start_part(Emitter& emitter, const transfer::ReshardPlan& plan, transfer::DeviceId device, const std::string& block,
                         std::uint32_t op, const TensorType& type, bool is_source) {
  transfer::DevicePart part = plan.device_part(device);
  const std::uint32_t buffer = emitter.add_persistent_buffer(emitter.persistent(block, type.bytes()), 0, type);
  if (part.empty()) return buffer;
  const std::uint32_t transfer = emitter.add_transfer({block, TransferKind::kCheckpoint, op, std::move(part)});
  const auto source = is_source ? std::optional(buffer) : std::nullopt;
  const auto destination = is_source ? std::nullopt : std::optional(buffer);
  emitter.start(transfer, -1, source, destination);
  return buffer;
}

/// Rounds the copy of a shard that ops read, when `value` has arrived.
void round_working_copy(Emitter& emitter, const std::string& parameter, const TensorType& type, std::uint32_t value) {
  const std::int32_t block = emitter.persistent(block_that_ops_read(parameter, type.dtype), type.bytes());
  emitter.run({OpKind::kToBF16, {}}, {value}, {emitter.add_persistent_buffer(block, 0, type)}, false);
}

}  // namespace

std::vector<Program> compile_checkpoint(const Partition& partition, CheckpointDirection direction, transfer::DeviceId driver,
                                        const transfer::Topology& topology) {
  const bool gather = direction == CheckpointDirection::kGather;
  const std::string name = gather ? "gather" : "scatter";
  Emitter driver_emitter(name, driver, "driver");
  std::vector<Emitter> emitters;
  struct WorkingCopy {
    std::size_t emitter = 0;
    std::string parameter;
    TensorType type;
    std::uint32_t value = 0;
  };
  std::vector<WorkingCopy> to_round;  ///< When all is under way.
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
      const TensorType state{DType::kF32, value.type.shape};
      const transfer::ReshardTask task{state, gather ? shards : whole, gather ? whole : shards};
      const transfer::ReshardPlan plan =
          transfer::plan_reshard(task, topology, gather ? transfer::Strategy::kSendRecv : transfer::Strategy::kWeft);
      const auto shape = [&](int rank) { return local_shape(value.type.shape, local.spec, mesh, rank); };
      std::vector<std::uint32_t> values;  // The first block, by rank.
      for (const std::string& block : checkpoint_blocks(value.name)) {
        for (int rank = 0; rank < mesh.size(); ++rank) {
          values.push_back(start_part(emitters[first + static_cast<std::size_t>(rank)], plan,
                                      mesh.devices()[static_cast<std::size_t>(rank)], block, op, {DType::kF32, shape(rank)},
                                      gather));
        }
        start_part(driver_emitter, plan, driver, block, op, state, !gather);
        ++op;
      }
      if (gather || value.type.dtype == DType::kF32) continue;
      for (int rank = 0; rank < mesh.size(); ++rank) {
        to_round.push_back({first + static_cast<std::size_t>(rank),
                            value.name,
                            {value.type.dtype, shape(rank)},
                            values[static_cast<std::size_t>(rank)]});
      }
    }
  }
  for (const WorkingCopy& copy : to_round) round_working_copy(emitters[copy.emitter], copy.parameter, copy.type, copy.value);
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
