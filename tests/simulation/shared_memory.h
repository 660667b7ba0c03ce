#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mesh/objects/memory_platform.h"
#include "tests/simulation/world.h"

namespace weft::simulation {

/// Memory of objects, shared by the processes of a simulated host. Checks that no handler frees
/// memory that another process maps.
class SharedMemory final {
 public:
  explicit SharedMemory(World& world) : world_(world) {}

  // Interface of mesh::MemoryPlatform.
  mesh::MemoryPlatform::Allocation allocate(std::uint64_t bytes);
  void release(std::int32_t descriptor);
  const std::byte* map(std::int32_t descriptor);
  void unmap(const std::byte* address);

  /// Ends holds and mappings of a process that has ended.
  void process_ended(ProcessNumber process);
  /// Returns the number of objects in the memory of living processes.
  std::size_t num_held() const;
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Block {
    ProcessNumber holder = 0;  // 0: none
    std::vector<std::byte> bytes;
    std::map<ProcessNumber, int> mappings{};  // number of mappings, by process
  };
  /// Forgets a block that no process holds or maps.
  void forget(std::map<std::int32_t, Block>::iterator block);

  World& world_;
  std::int32_t last_descriptor_ = 0;
  std::map<std::int32_t, Block> blocks_;
  std::vector<std::string> violations_;
};

}  // namespace weft::simulation
