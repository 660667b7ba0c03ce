#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cuda_support/plugin_stamp.h"
#include "core/device/device.h"

namespace weft {

/// Which GPU, and how it computes.
struct CudaDeviceOptions {
  int gpu = 0;  ///< Among those that the process sees (all, or what CUDA_VISIBLE_DEVICES leaves).
  /// Whether products of f32 tensors may round their factors to TF32 (10 bits of mantissa): some 8
  /// times as fast, and not what the CPU computes.
  bool tf32 = false;
  /// Waits after every op, so that an error of the GPU is told with the op it belongs to; slow.
  /// Environment variable WEFT_CUDA_CHECK.
  bool check_every_op = false;
  /// Equal inputs give equal results, bit for bit. Without it gradients of attention in bf16 are
  /// faster, and take less memory.
  bool deterministic = true;
};

/// What a process can do with CUDA.
struct CudaSupport {
  std::vector<std::string> gpus;  ///< By index: "NVIDIA H200, sm_90, 139 GiB".
  /// The newest CUDA that the driver knows, "13.0"; "" without a driver.
  std::string driver;
  std::string runtime;  ///< The CUDA of the libraries, "13.0".
  std::string missing;  ///< Why there is no GPU, and what to do; "" if there is one.
};

/// What libweft_cuda.so offers to the programs that open it. Any thread.
class CudaPlugin {
 public:
  virtual ~CudaPlugin() = default;
  /// Looks for the driver and its GPUs. Does not throw for what is missing.
  virtual CudaSupport support() const = 0;
  /// Throws Error(kFailedPrecondition) if there is no such GPU.
  virtual std::unique_ptr<Device> make_device(const CudaDeviceOptions& options) const = 0;

  // See open_plugin().
  static constexpr const char* kLibrary = "weft_cuda";
  static constexpr const char* kEntry = "weft_cuda_plugin";
  static constexpr std::uint64_t stamp() {
    return plugin_stamp(2, {static_cast<std::size_t>(last_enumerator<OpKind>::kValue), sizeof(Op),
                            sizeof(TensorType), sizeof(AdamW), sizeof(OptimizedParameter),
                            sizeof(CudaDeviceOptions), sizeof(CudaSupport)});
  }
};

}  // namespace weft
