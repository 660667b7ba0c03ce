#pragma once

#include <memory>
#include <optional>

#include "core/cpu/instruction_set.h"
#include "core/device/device.h"

namespace weft {

struct CpuDeviceOptions {
  int threads = 1;  ///< Number of threads inside matrix products.
  /// Instruction set to use. The default is the best that the CPU has.
  std::optional<InstructionSet> instruction_set;
};

/// CPU of this process. A stream executes work inside the call, in the caller's thread, so events
/// are done when they are created. Different threads may use different streams at the same time.
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
