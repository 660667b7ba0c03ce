#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/device/device.h"

namespace weft::test {

/// Device that a benchmark of one device measures.
struct StepDevice {
  std::string kind = "cpu";   ///< "cpu" or "cuda".
  int threads = 1;            ///< See CpuDeviceOptions.
  bool deterministic = true;  ///< See CudaDeviceOptions; the CPU always is.
};

/// Opens the device. Throws Error(kFailedPrecondition) with the reason if there is no usable GPU.
std::unique_ptr<Device> open_device(const StepDevice& device);

/// Fills device memory with random numbers of type f32 or bf16, between 1/32 and 1/8. (A GPU
/// multiplies zeros faster.) Repeats a block of 1 MiB. Read as f32, memory filled with bf16 numbers
/// also has numbers of this range.
void fill_random(Stream& stream, std::span<std::byte> memory, DType type);

/// Returns the best rate, in FLOP/s, of the device's own product of two large square matrices.
double matmul_rate(const Clock& clock, Device& device, DType precision);
/// Returns the best rate, in bytes per second, of a copy within the device's memory that is larger
/// than its caches. Counts the bytes read and the bytes written.
double copy_rate(const Clock& clock, Device& device);
/// Returns the size of the device's last-level cache in bytes, within [8 MiB, 128 MiB]; the upper
/// bound for a GPU, and if the size is unknown.
std::size_t cache_bytes(const Device& device);

}  // namespace weft::test
