#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/device/device.h"
#include "core/device/waitable_clock.h"

namespace weft {

/// How fast an emulated device is.
struct EmulatedDeviceOptions {
  /// Of ops that do not state their seconds themselves, as emulated blocks do; 0: those take no
  /// time.
  double flops_per_second = 0;
};

/// A device that computes nothing but takes the time that its cost model says, on a timer: for
/// schedules of models that no machine at hand could hold. Memory is real where something is
/// written into it, and only there: real bytes cross real links (scaled down with them), and
/// weights, which nothing reads, take none. What it gives back is what memory held before; losses
/// and norms are 0. Whatever is measured on it must be called emulated.
///
/// A stream sleeps inside run(), as CpuDevice computes inside it. Work that follows at once begins
/// when the work before should have ended, not when the sleeper woke, so that errors of the timer
/// do not add up.
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

/// Seconds that one run of an op takes on such a device.
double emulated_seconds(const EmulatedDeviceOptions& options, const Op& op,
                        std::span<const TensorType> inputs);

}  // namespace weft
