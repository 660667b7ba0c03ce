#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/device/device.h"
#include "core/device/waitable_clock.h"

namespace weft {

/// Speed of an emulated device.
struct EmulatedDeviceOptions {
  /// Rate for ops that do not state their seconds, as emulated blocks do; 0: those take no time.
  double flops_per_second = 0;
};

/// Device that computes nothing but takes the time of its cost model, by a timer. For schedules of
/// models too large for the available machines. Memory is backed by pages only where it is written:
/// transferred bytes are real (scaled down with the links), while unused weights occupy none.
/// Results are the previous content of memory; losses and norms are 0. Label all measurements on it
/// as emulated.
///
/// A stream sleeps inside run(), like CpuDevice computes inside it. Work that follows at once
/// starts at the intended end of the previous work, not at the actual wake-up, so that timer errors
/// do not accumulate.
class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(const EmulatedDeviceOptions& options, std::unique_ptr<WaitableClock> timer);

  std::string description() const override;
  DeviceMemory allocate(std::size_t bytes) override;
  std::unique_ptr<Stream> create_stream() override;
  bool is_host_memory() const override { return true; }

 private:
  void release(std::byte* data, std::size_t size) noexcept override;

  const EmulatedDeviceOptions options_;
  std::unique_ptr<WaitableClock> timer_;
};

/// Returns the seconds that one run of an op takes on an emulated device.
double emulated_seconds(const EmulatedDeviceOptions& options, const Op& op,
                        std::span<const TensorType> inputs);

}  // namespace weft
