#include "mesh/runtime/storage.h"

#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::mesh {

void Storage::provide(const Program& program, Stream& stream) {
  graphs_.forget(program.name);
  for (const PersistentBlock& persistent : program.persistents) {
    const auto found = blocks_.find(persistent.name);
    if (found != blocks_.end()) {
      if (found->second.memory.size() != persistent.bytes) {
        throw_error(ErrorCode::kFailedPrecondition,
                    "program '{}' needs block '{}' of {} bytes, but on {} this block has {} bytes",
                    program.name, persistent.name, persistent.bytes, program.device_name,
                    found->second.memory.size());
      }
      continue;
    }
    const bool on_host = persistent.place == MemoryKind::kHost;
    DeviceMemory memory =
        on_host ? device_.allocate_staging(persistent.bytes) : device_.allocate(persistent.bytes);
    if (on_host) std::memset(memory.data(), 0, memory.size());
    else stream.fill_zero({memory.data(), memory.size()});
    blocks_.emplace(persistent.name, StoredBlock{std::move(memory), persistent.place});
  }
  if (arena_.size() < program.arena_bytes) {
    graphs_.forget_all();
    arena_ = DeviceMemory();
    arena_ = device_.allocate(program.arena_bytes);
    stream.fill_zero({arena_.data(), arena_.size()});
  }
  stream.synchronize();
}

Storage::StoredBlock& Storage::find(const std::string& name) {
  const auto found = blocks_.find(name);
  if (found == blocks_.end())
    throw_error(ErrorCode::kNotFound, "there is no block '{}' on this device", name);
  return found->second;
}

std::span<std::byte> Storage::block(const std::string& name) {
  const StoredBlock& found = find(name);
  if (!device_.is_host_memory() && found.place == MemoryKind::kDevice) {
    throw_error(ErrorCode::kFailedPrecondition,
                "block '{}' is in the memory of {}, which the host cannot access; run a program "
                "that copies it to the driver",
                name, device_.description());
  }
  return {found.memory.data(), found.memory.size()};
}

std::vector<TensorRef> Storage::resolve(const Program& program) {
  std::vector<std::span<std::byte>> blocks;
  for (const PersistentBlock& persistent : program.persistents) {
    const DeviceMemory& memory = find(persistent.name).memory;
    blocks.emplace_back(memory.data(), memory.size());
  }
  std::vector<TensorRef> tensors;
  tensors.reserve(program.buffers.size());
  for (const Buffer& buffer : program.buffers) {
    const std::span<std::byte> whole =
        buffer.persistent < 0 ? std::span(arena_.data(), arena_.size()) : blocks[buffer.persistent];
    WEFT_CHECK(buffer.offset + buffer.type.bytes() <= whole.size());
    tensors.push_back({buffer.type, whole.data() + buffer.offset});
  }
  return tensors;
}

}  // namespace weft::mesh
