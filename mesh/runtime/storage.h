#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "mesh/program/program.h"
#include "mesh/runtime/step_graphs.h"

namespace weft::mesh {

/// The memory of one device actor: blocks that stay, by name, and one arena that all programs
/// share, since one runs at a time; and what was recorded of work on it. Owner's thread only.
class Storage final {
 public:
  /// What a device computes in the host's memory is done when it is queued, and never recorded.
  explicit Storage(Device& device)
      : device_(device), graphs_(device.is_host_memory() ? 0 : StepGraphs::kMostInstructions) {}

  /// Makes what the program needs and is not there yet, filled with zeros, for a program that is
  /// new or takes the place of one of its name. Not while one runs. Throws
  /// Error(kFailedPrecondition) when a block exists with another size.
  void provide(const Program& program, Stream& stream);

  /// A block that the host may read and write. Throws Error(kFailedPrecondition) for others.
  std::span<std::byte> block(const std::string& name);
  /// Where each buffer of the program lies; true until a program that needs a larger arena is
  /// provided for.
  std::vector<TensorRef> resolve(const Program& program);
  /// Recordings of programs provided for, of the stream that was given then.
  StepGraphs& graphs() { return graphs_; }

 private:
  struct Block {
    DeviceMemory memory;
    MemoryPlace place = MemoryPlace::kDevice;
  };
  Block& find(const std::string& name);

  Device& device_;
  std::map<std::string, Block> blocks_;
  DeviceMemory arena_;
  StepGraphs graphs_;
};

}  // namespace weft::mesh
