#include "tests/simulation/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/call/call_frame.h"

namespace weft::simulation {

mesh::MemoryPlatform::Allocation SharedMemory::allocate(std::uint64_t bytes) {
  Block& block = blocks_[++last_descriptor_];
  block.holder = world_.current_process();
  block.bytes.resize(bytes);
  return {block.bytes.data(), last_descriptor_};
}

void SharedMemory::release(std::int32_t descriptor) {
  const auto block = blocks_.find(descriptor);
  if (block == blocks_.end()) return;
  const ProcessNumber holder = std::exchange(block->second.holder, 0);
  // A process that ends frees its memory on other threads. Processes that were stopped may have
  // lost their connections.
  const bool is_free = actors::on_actor_thread() && !world_.was_stopped(holder);
  for (const auto& [process, count] : block->second.mappings)
    if (is_free && !world_.was_stopped(process))
      violations_.push_back(
          fmt::format("{} (process {}) frees an object that {} (process {}) reads",
                      world_.label_of(holder), holder, world_.label_of(process), process));
  forget(block);
}

const std::byte* SharedMemory::map(std::int32_t descriptor) {
  const auto block = blocks_.find(descriptor);
  if (block == blocks_.end() || block->second.holder == 0) return nullptr;
  ++block->second.mappings[world_.current_process()];
  return block->second.bytes.data();
}

void SharedMemory::unmap(const std::byte* address) {
  const auto block = std::ranges::find_if(
      blocks_, [&](const auto& each) { return each.second.bytes.data() == address; });
  if (block == blocks_.end()) return;
  auto& mappings = block->second.mappings;
  const auto own = mappings.find(world_.current_process());
  if (own != mappings.end() && --own->second == 0) mappings.erase(own);
  forget(block);
}

void SharedMemory::process_ended(ProcessNumber process) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    if (block->second.holder == process) block->second.holder = 0;
    block->second.mappings.erase(process);
    forget(block++);
  }
}

void SharedMemory::forget(std::map<std::int32_t, Block>::iterator block) {
  if (block->second.holder == 0 && block->second.mappings.empty()) blocks_.erase(block);
}

std::size_t SharedMemory::num_held() const {
  return std::ranges::count_if(blocks_, [](const auto& each) { return each.second.holder != 0; });
}

}  // namespace weft::simulation
