#pragma once

#include <cstdint>

#include "core/codec/codec.h"

namespace weft {

/// Kind of device that runs ops.
enum class DeviceKind : std::uint8_t {
  kCpu,
  /// Takes the time that ops state, or that a given rate implies; computes nothing (core/device).
  kEmulated,
  kCuda,  ///< GPU.
  kAuto,  ///< GPU if the machine has a usable one, else the CPU.
};

/// Devices of a run: the settings in `cluster:` of a run file that are sent to the device
/// processes.
struct DeviceConfig {
  DeviceKind kind = DeviceKind::kCpu;
  int threads = 1;  ///< CPU threads for the matrix products of a device.
  /// Allows several devices on one GPU; slower than one, and without NCCL between them. Devices are
  /// assigned to a machine's GPUs round-robin.
  bool share_gpu = false;
  /// Makes GPUs give equal results for equal inputs. If false, backward bf16 attention is faster,
  /// and so are sums between GPUs, whose order NCCL then chooses.
  bool deterministic = true;
  /// Rate of emulated devices for ops that do not state their seconds; 0: those take no time.
  double flops_per_second = 0;

  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
  static constexpr auto fields =
      weft::fields(&DeviceConfig::kind, &DeviceConfig::threads, &DeviceConfig::share_gpu,
                   &DeviceConfig::deterministic, &DeviceConfig::flops_per_second);
};

}  // namespace weft

template <>
struct weft::last_enumerator<weft::DeviceKind> {
  static constexpr auto kValue = weft::DeviceKind::kAuto;
};
