#pragma once

#include <cstdint>

#include "core/codec/codec.h"

namespace weft {

/// What computes.
enum class DeviceKind : std::uint8_t {
  kCpu,
  /// Takes the time that ops state, or would take at a stated rate; computes nothing (core/device).
  kEmulated,
  kCuda,  ///< A GPU.
  kAuto,  ///< A GPU where the machine has one that can be used, else the CPU.
};

/// What all devices of a run compute on: what `cluster:` of a run file says of it, as it travels to
/// the device processes. A value.
struct DeviceConfig {
  DeviceKind kind = DeviceKind::kCpu;
  int threads = 1;  ///< Of the CPU, for a device's matrix products.
  /// Whether several devices may compute on one GPU: slower than one, and without NCCL between
  /// them. Devices beyond the number of a machine's GPUs begin with the first again.
  bool share_gpu = false;
  /// Whether GPUs give equal results for equal inputs; without it, backward attention in bf16 is
  /// faster, and so are sums between GPUs, which the library then adds up in its own order.
  bool deterministic = true;
  /// Of emulated devices, for ops that state no seconds; 0: they take no time.
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
