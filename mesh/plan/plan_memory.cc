#include "mesh/plan/plan_memory.h"

#include <algorithm>
#include <map>
#include <string>

namespace weft::mesh {
namespace {

std::uint64_t staging_bytes(const TrainingPlan& plan, transfer::DeviceId device) {
  std::uint64_t most = 0;
  for (const auto* programs : {&plan.train.programs, &plan.validate.programs}) {
    for (const Program& program : *programs) {
      if (program.device == device) most = std::max(most, collective_staging_bytes(program));
    }
  }
  return most;
}

}  // namespace

bool is_gpu(const TrainingPlan& plan, transfer::DeviceId device) {
  return std::ranges::any_of(plan.conditions.device_places,
                             [&](const transfer::DeviceCapabilities& place) {
                               return place.device == device && place.is_gpu;
                             });
}

std::uint64_t arena_bytes(const TrainingPlan& plan, transfer::DeviceId device) {
  std::uint64_t most = 0;
  for (const auto* programs : plan.all_programs()) {
    for (const Program& program : *programs) {
      if (program.device == device) most = std::max(most, program.arena_bytes);
    }
  }
  return most;
}

std::uint64_t device_memory(const TrainingPlan& plan, transfer::DeviceId device) {
  std::map<std::string, std::uint64_t> blocks;
  for (const auto* programs : plan.all_programs()) {
    for (const Program& program : *programs) {
      if (program.device != device) continue;
      for (const PersistentBlock& block : program.persistents) blocks[block.name] = block.bytes;
    }
  }
  if (is_gpu(plan, device)) {
    const auto erase_copies = [&](const std::vector<Program>& programs) {
      for (const Program& program : programs)
        for (const PersistentBlock& block : program.persistents)
          if (program.device == device && block.place == MemoryKind::kHost)
            blocks.erase(block.name);
    };
    erase_copies(plan.checkpoint_copy);
    for (const InMemoryCheckpoint::Slot& slot : plan.snapshots.slots) {
      erase_copies(slot.snapshot);
      erase_copies(slot.replicate_to_backup);
    }
  }
  std::uint64_t bytes = arena_bytes(plan, device) + staging_bytes(plan, device);
  for (const auto& [name, size] : blocks) bytes += size;
  return bytes;
}

std::uint64_t host_memory(const TrainingPlan& plan, transfer::DeviceId device) {
  return is_gpu(plan, device)
             ? checkpoint_copy_bytes(plan, device) + snapshot_bytes(plan.snapshots, device)
             : device_memory(plan, device);
}

std::uint64_t checkpoint_copy_bytes(const TrainingPlan& plan, transfer::DeviceId device) {
  std::uint64_t bytes = 0;
  for (const Program& program : plan.checkpoint_copy) {
    if (program.device != device) continue;
    for (const PersistentBlock& block : program.persistents)
      bytes += block.place == MemoryKind::kHost ? block.bytes : 0;
  }
  return bytes;
}

std::optional<transfer::DeviceId> find_device_beyond_memory(const TrainingPlan& plan) {
  if (!plan.layout.memory) return std::nullopt;
  for (const Program& program : plan.train.programs) {
    if (device_memory(plan, program.device) > *plan.layout.memory) return program.device;
  }
  return std::nullopt;
}

}  // namespace weft::mesh
