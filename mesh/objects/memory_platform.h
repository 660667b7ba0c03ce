#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/platform.h"

namespace weft::mesh {

/// Memory that the processes of a host share, in a simulation; see Platform. In place of files
/// without a name.
class MemoryPlatform {
 public:
  virtual ~MemoryPlatform() = default;
  /// Returns the memory of the simulation; null in a real process, and if it has none.
  static MemoryPlatform* simulated() {
    return dynamic_cast<MemoryPlatform*>(Platform::simulated());
  }
  /// Returns the bytes that objects may take by default.
  virtual std::uint64_t available() = 0;
  struct Allocation {
    std::byte* address = nullptr;
    std::int32_t descriptor = 0;  ///< Never reused.
  };
  /// Allocates `bytes` that the process that runs now holds.
  virtual Allocation allocate(std::uint64_t bytes) = 0;
  /// Ends the hold of a process. Mappings of others stay valid.
  virtual void release(std::int32_t descriptor) = 0;
  /// Maps memory into the process that runs now. Returns null if no process holds it any more.
  virtual const std::byte* map(std::int32_t descriptor) = 0;
  /// Ends a mapping of the process that runs now.
  virtual void unmap(const std::byte* address) = 0;
};

}  // namespace weft::mesh
