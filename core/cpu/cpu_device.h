#pragma once

#include <memory>
#include <optional>

#include "core/cpu/instruction_set.h"
#include "core/device/device.h"

namespace weft {

struct CpuDeviceOptions {
  int threads = 1;  ///< Used inside matrix products.
  /// The instruction set to use; the best that the CPU has by default.
  std::optional<InstructionSet> instruction_set;
};

/// The processor that this process runs on. A stream executes its work inside the call, in the
/// caller's thread, so that events are done when they are made; several streams may be used by
/// several threads.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options = {});

  std::string description() const override;
  DeviceMemory allocate(std::size_t bytes) override;
  std::unique_ptr<Stream> create_stream() override;
  bool is_host_memory() const override { return true; }

 private:
  void release(std::byte* data, std::size_t size) noexcept override;

  int threads_;
  InstructionSet instruction_set_;
};

}  // namespace weft
