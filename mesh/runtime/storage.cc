#include "mesh/runtime/storage.h"

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::mesh {

void Storage::provide(const Program& program, Stream& stream) {
  for (const Persistent& persistent : program.persistents) {
    const auto found = blocks_.find(persistent.name);
    if (found != blocks_.end()) {
      if (found->second.size() != persistent.bytes) {
        throw_error(ErrorCode::kFailedPrecondition, "program '{}' wants '{}' with {} bytes, but {} has it with {}", program.name,
                    persistent.name, persistent.bytes, program.device_name, found->second.size());
      }
      continue;
    }
    DeviceMemory memory = device_.allocate(persistent.bytes);
    stream.fill_zero({memory.data(), memory.size()});
    blocks_.emplace(persistent.name, std::move(memory));
  }
  if (arena_.size() < program.arena_bytes) {
    arena_ = DeviceMemory();
    arena_ = device_.allocate(program.arena_bytes);
    stream.fill_zero({arena_.data(), arena_.size()});
  }
  stream.synchronize();
}

std::span<std::byte> Storage::block(const std::string& name) {
  const auto found = blocks_.find(name);
  if (found == blocks_.end()) throw_error(ErrorCode::kNotFound, "there is no block '{}' on this device", name);
  return {found->second.data(), found->second.size()};
}

std::vector<TensorRef> Storage::resolve(const Program& program) {
  std::vector<std::span<std::byte>> blocks;
  for (const Persistent& persistent : program.persistents) blocks.push_back(block(persistent.name));
  std::vector<TensorRef> tensors;
  tensors.reserve(program.buffers.size());
  for (const Buffer& buffer : program.buffers) {
    const std::span<std::byte> whole =
        buffer.persistent < 0 ? std::span(arena_.data(), arena_.size()) : blocks[static_cast<std::size_t>(buffer.persistent)];
    WEFT_CHECK(buffer.offset + buffer.type.bytes() <= whole.size());
    tensors.push_back({buffer.type, whole.data() + buffer.offset});
  }
  return tensors;
}

}  // namespace weft::mesh
