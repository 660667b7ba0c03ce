#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "mesh/program/program.h"
#include "mesh/runtime/recorded_segments.h"

namespace weft::mesh {

/// Memory of one device actor: named blocks that stay, one arena that programs share, since one
/// runs at a time, and recordings of work on this memory. Owner's thread only.
class Storage final {
 public:
  /// Devices that compute in host memory finish work when it is queued, and record nothing.
  explicit Storage(Device& device)
      : device_(device),
        graphs_(device.is_host_memory() ? 0 : RecordedSegments::kMaxRecordedInstructions) {}

  /// Allocates the memory that a new or replaced program needs and that does not exist yet, filled
  /// with zeros. Call while no program runs. Throws Error(kFailedPrecondition) if a block exists
  /// with another size.
  void provide(const Program& program, Stream& stream);

  /// Returns a block that the host can read and write. Throws Error(kFailedPrecondition) for other
  /// blocks.
  std::span<std::byte> block(const std::string& name);
  /// Returns the address of each buffer of the program. Valid until provide() enlarges the arena.
  std::vector<TensorRef> resolve(const Program& program);
  /// Returns the recordings of provided programs, for the stream passed to provide().
  RecordedSegments& graphs() { return graphs_; }

 private:
  struct StoredBlock {
    DeviceMemory memory;
    MemoryKind place = MemoryKind::kDevice;
  };
  StoredBlock& find(const std::string& name);

  Device& device_;
  std::map<std::string, StoredBlock> blocks_;
  DeviceMemory arena_;
  RecordedSegments graphs_;
};

}  // namespace weft::mesh
