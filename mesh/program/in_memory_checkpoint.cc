#include "mesh/program/in_memory_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "mesh/program/compile.h"
#include "mesh/program/emitter.h"
#include "mesh/program/parameter_blocks.h"
#include "transfer/reshard/plan.h"

namespace weft::mesh {
namespace {

constexpr std::uint64_t kCopyAlignment = 64;

std::uint64_t aligned_in_copy(std::uint64_t bytes) {
  return (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

/// A block of a device's state and its place in the copy.
struct StateBlockPlace {
  std::string name;
  Region region;             ///< Region of the whole parameter.
  std::uint64_t offset = 0;  ///< Byte offset in the copy.
  std::int64_t elements = 0;
  /// Name and type of the working block, if ops read the value in another type.
  std::string working = {};
  DType dtype = DType::kF32;
};

struct DeviceState {
  transfer::DeviceId device;
  std::string name;
  std::vector<StateBlockPlace> blocks;
  std::uint64_t bytes = 0;  ///< Size of the copy.
};

/// Returns the state blocks of all devices, ordered by DeviceId.
std::vector<DeviceState> states_of(const Partition& partition) {
  std::vector<DeviceState> states;
  for (const MeshId id : partition.meshes.ids()) {
    const DeviceMesh& mesh = partition.meshes[id];
    for (int rank = 0; rank < mesh.size() && !partition.spans(id); ++rank)
      states.push_back({mesh.devices()[rank], device_name(mesh, rank), {}, 0});
  }
  for (const MeshId id : partition.meshes.ids()) {
    const DeviceMesh& mesh = partition.meshes[id];
    for (const LocalParameter& parameter : partition.per_mesh[id].parameters) {
      const Value& value =
          partition.graph.value(partition.graph.parameters()[parameter.parameter].value);
      const LocalValue& local = partition.per_mesh[id].locals[parameter.value];
      const transfer::ShardMap shards = shard_map(value.type.shape, local.spec, mesh);
      for (const transfer::Shard& shard : shards.shards) {
        const auto state = std::ranges::find(states, shard.device, &DeviceState::device);
        for (const std::string& block : optimizer_blocks(value.name)) {
          StateBlockPlace place{block, shard.region, state->bytes, shard.region.num_elements()};
          if (block == optimizer_blocks(value.name).front() && value.type.dtype != DType::kF32) {
            place.working = working_block(value.name, value.type.dtype);
            place.dtype = value.type.dtype;
          }
          state->bytes += aligned_in_copy(place.elements * sizeof(float));
          state->blocks.push_back(std::move(place));
        }
      }
    }
  }
  std::ranges::sort(states, {}, &DeviceState::device);
  return states;
}

using Signature = std::vector<std::tuple<std::string, Region>>;
Signature signature_of(const DeviceState& state) {
  Signature signature;
  for (const StateBlockPlace& block : state.blocks)
    signature.emplace_back(block.name, block.region);
  return signature;
}

/// Returns the failure domain of each device: its host, or, if there is only one host, the device
/// itself.
std::vector<std::uint32_t> failure_domains(const transfer::Topology& topology,
                                           std::size_t devices) {
  std::vector<std::uint32_t> fates;
  std::set<std::uint32_t> hosts;
  for (std::uint32_t d = 0; d < devices; ++d) {
    fates.push_back(topology.host_of(transfer::DeviceId(d)).value());
    hosts.insert(fates.back());
  }
  if (hosts.size() == 1)
    for (std::uint32_t d = 0; d < devices; ++d) fates[d] = d;
  return fates;
}

std::vector<ReplicaGroup> groups_of(const std::vector<DeviceState>& states,
                                    const transfer::Topology& topology) {
  std::vector<ReplicaGroup> groups;
  std::map<Signature, std::size_t> group_of;
  for (const DeviceState& state : states) {
    if (state.blocks.empty()) continue;
    const auto [known, is_new] = group_of.try_emplace(signature_of(state), groups.size());
    if (is_new) groups.push_back({{}, std::nullopt, state.bytes});
    groups[known->second].devices.push_back(state.device);
  }
  // Choose as backup the device with the fewest bytes of others; among equals, the next failure
  // domain.
  const std::vector<std::uint32_t> fates = failure_domains(topology, states.size());
  const std::uint32_t most = 1 + *std::ranges::max_element(fates);
  std::vector<std::uint64_t> holds(states.size());
  for (ReplicaGroup& group : groups) {
    const std::uint32_t own = fates[group.devices.front().value()];
    if (std::ranges::any_of(group.devices,
                            [&](transfer::DeviceId d) { return fates[d.value()] != own; }))
      continue;
    std::optional<std::uint32_t> best;
    const auto rank = [&](std::uint32_t d) {
      return std::tuple(holds[d], (fates[d] + most - own) % most, d);
    };
    for (std::uint32_t d = 0; d < states.size(); ++d)
      if (fates[d] != own && (!best || rank(d) < rank(*best))) best = d;
    if (!best) continue;
    group.backup_device = transfer::DeviceId(*best);
    holds[*best] += group.bytes;
  }
  return groups;
}

std::string kept_name(std::size_t slot) { return fmt::format("kept.{}", slot); }
std::string held_name(std::size_t slot, std::size_t group) {
  return fmt::format("held.{}.{}", slot, group);
}

TensorType floats(std::uint64_t bytes) {
  return {DType::kF32, {static_cast<std::int64_t>(bytes / sizeof(float))}};
}

/// Builder of programs of all devices that move whole copies.
class CopyProgramBuilder {
 public:
  CopyProgramBuilder(const std::vector<DeviceState>& states, const std::string& name,
                     const transfer::Topology& topology)
      : topology_(topology) {
    for (const DeviceState& state : states) emitters_.emplace_back(name, state.device, state.name);
  }
  void add(const std::string& what, std::uint64_t bytes, transfer::DeviceId from,
           const std::string& source, transfer::DeviceId to, const std::string& destination) {
    const TensorType type = floats(bytes);
    const Region whole = Region::whole(type.shape);
    const transfer::ReshardTask task{
        type, {type.shape, {{from, whole}}}, {type.shape, {{to, whole}}}};
    const transfer::ReshardPlan plan =
        transfer::plan_reshard(task, topology_, transfer::ReshardAlgorithm::kSendRecv);
    Emitter& sender = emitters_[from.value()];
    Emitter& receiver = emitters_[to.value()];
    sender.start(
        sender.add_transfer({what, TransferPurpose::kCheckpoint, op_, plan.device_part(from)}), -1,
        block(sender, source, bytes), std::nullopt);
    receiver.start(
        receiver.add_transfer({what, TransferPurpose::kCheckpoint, op_, plan.device_part(to)}), -1,
        std::nullopt, block(receiver, destination, bytes));
    ++op_;
  }
  std::vector<Program> finish() { return finish_all(emitters_); }

 private:
  static std::uint32_t block(Emitter& emitter, const std::string& name, std::uint64_t bytes) {
    return emitter.add_persistent_buffer(emitter.persistent(name, bytes, MemoryKind::kHost), 0,
                                         floats(bytes));
  }
  const transfer::Topology& topology_;
  std::vector<Emitter> emitters_;  ///< Emitters, by DeviceId.
  std::uint32_t op_ = 0;
};

enum class CopyDirection : std::uint8_t { kSnapshot, kRestore };

/// Returns the program that copies a device's blocks to its copy ("keep") or back ("back").
Program copy_program(const DeviceState& state, std::size_t slot, CopyDirection direction) {
  const bool keep = direction == CopyDirection::kSnapshot;
  Emitter emitter(fmt::format("{}.{}", keep ? "keep" : "back", slot), state.device, state.name);
  if (state.bytes == 0) return emitter.finish();
  const std::int32_t copy = emitter.persistent(kept_name(slot), state.bytes, MemoryKind::kHost);
  for (const StateBlockPlace& block : state.blocks) {
    const TensorType type = floats(block.elements * sizeof(float));
    const std::uint32_t own =
        emitter.add_persistent_buffer(emitter.persistent(block.name, type.bytes()), 0, type);
    const std::uint32_t copied = emitter.add_persistent_buffer(copy, block.offset, type);
    emitter.accumulate(keep ? own : copied, keep ? copied : own, true);
    if (keep || block.working.empty()) continue;
    const TensorType rounded{block.dtype, type.shape};
    const std::uint32_t working = emitter.add_persistent_buffer(
        emitter.persistent(block.working, rounded.bytes()), 0, rounded);
    emitter.run({OpKind::kToBF16, {}}, {own}, {working}, false);
  }
  return emitter.finish();
}

}  // namespace

bool InMemoryCheckpoint::has_backups() const {
  return std::ranges::any_of(
      groups, [](const ReplicaGroup& group) { return group.backup_device.has_value(); });
}

InMemoryCheckpoint compile_kept_state(const Partition& partition,
                                      const transfer::Topology& topology) {
  const std::vector<DeviceState> states = states_of(partition);
  InMemoryCheckpoint snapshots;
  snapshots.groups = groups_of(states, topology);
  const bool has_copies = std::ranges::any_of(snapshots.groups, [](const ReplicaGroup& group) {
    return group.backup_device || group.devices.size() > 1;
  });
  if (!has_copies) return {};
  for (std::size_t slot = 0; slot < InMemoryCheckpoint::kSlots; ++slot) {
    InMemoryCheckpoint::Slot& programs = snapshots.slots[slot];
    CopyProgramBuilder hold(states, fmt::format("hold.{}", slot), topology);
    for (std::size_t g = 0; g < snapshots.groups.size(); ++g) {
      const ReplicaGroup& group = snapshots.groups[g];
      if (!group.backup_device) continue;
      hold.add(fmt::format("state of {}", states[group.devices.front().value()].name), group.bytes,
               group.devices.front(), kept_name(slot), *group.backup_device, held_name(slot, g));
    }
    programs.replicate_to_backup = hold.finish();
    for (const DeviceState& state : states) {
      programs.snapshot.push_back(copy_program(state, slot, CopyDirection::kSnapshot));
      programs.restore_from_snapshot.push_back(copy_program(state, slot, CopyDirection::kRestore));
    }
  }
  return snapshots;
}

std::optional<std::vector<Program>> compile_fetch(const Partition& partition,
                                                  const transfer::Topology& topology,
                                                  const std::vector<ReplicaGroup>& groups,
                                                  std::size_t slot, bool on_backups,
                                                  const std::set<transfer::DeviceId>& missing) {
  const std::vector<DeviceState> states = states_of(partition);
  CopyProgramBuilder fetch(states, fmt::format("fetch.{}", slot), topology);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const ReplicaGroup& group = groups[g];
    const auto lives = [&](transfer::DeviceId device) { return !missing.contains(device); };
    const auto replica = std::ranges::find_if(group.devices, lives);
    for (const transfer::DeviceId device : group.devices) {
      if (lives(device)) continue;
      const std::string what = fmt::format("state of {}", states[device.value()].name);
      if (replica != group.devices.end())
        fetch.add(what, group.bytes, *replica, kept_name(slot), device, kept_name(slot));
      else if (on_backups && group.backup_device && lives(*group.backup_device))
        fetch.add(what, group.bytes, *group.backup_device, held_name(slot, g), device,
                  kept_name(slot));
      else return std::nullopt;
    }
  }
  return fetch.finish();
}

std::uint64_t snapshot_bytes(const InMemoryCheckpoint& snapshots, transfer::DeviceId device) {
  std::map<std::string, std::uint64_t> blocks;
  for (const InMemoryCheckpoint::Slot& slot : snapshots.slots) {
    for (const auto* programs : {&slot.snapshot, &slot.replicate_to_backup}) {
      for (const Program& program : *programs) {
        if (program.device != device) continue;
        for (const PersistentBlock& block : program.persistents)
          if (block.place == MemoryKind::kHost) blocks[block.name] = block.bytes;
      }
    }
  }
  std::uint64_t bytes = 0;
  for (const auto& [name, size] : blocks) bytes += size;
  return bytes;
}

}  // namespace weft::mesh
