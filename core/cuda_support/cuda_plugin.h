#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/plugin_stamp.h"
#include "core/device/device.h"

namespace weft {

/// Choice of a GPU and its numerical modes.
struct CudaDeviceOptions {
  /// Index among the GPUs visible to the process (all, or those in CUDA_VISIBLE_DEVICES).
  int gpu = 0;
  /// Allows products of f32 tensors to round their factors to TF32 (10 mantissa bits): about 8
  /// times as fast, but different from the CPU's results.
  bool tf32 = false;
  /// Synchronizes after every op, so that a GPU error is reported for the op that caused it. Slow.
  /// Set by the environment variable WEFT_CUDA_CHECK.
  bool check_every_op = false;
  /// Records work that is queued repeatedly as CUDA graphs. Cleared by the environment variable
  /// WEFT_CUDA_GRAPHS=0.
  bool graphs = true;
  /// Makes equal inputs give bitwise equal results. If false, gradients of bf16 attention are
  /// faster and use less memory.
  bool deterministic = true;
  /// Uses cuBLASLt and cuDNN. If false, Weft's own kernels run all ops: slow, for comparisons with
  /// the libraries' results.
  bool vendor_libraries = true;
  /// Times the algorithms of cuBLASLt once per matrix product, and uses the fastest. Set unless the
  /// environment variable WEFT_CUDA_MEASURE is 0.
  bool measure_products = false;
  /// File that keeps the choices for later runs and other processes. Set to a file in
  /// default_cache() if empty; stays empty if no folder can be used.
  std::filesystem::path product_choices = {};
};

/// Library of NVIDIA's that the process has loaded.
struct LoadedLibrary {
  std::string name;     ///< "cuBLASLt"
  std::string version;  ///< "13.0.2"
  std::string file;     ///< Path without symbolic links.
};

/// CUDA capabilities of a process.
struct CudaSupport {
  std::vector<std::string> gpus;  ///< Indexed by GPU: "NVIDIA H200, sm_90, 139 GiB".
  /// Newest CUDA version that the driver supports, "13.0"; "" without a driver.
  std::string driver;
  std::string runtime;  ///< CUDA version of the libraries, "13.0".
  /// Libraries that compute. Several versions may be installed on a machine.
  std::vector<LoadedLibrary> libraries;
  std::string
      unavailable_reason;  ///< Reason why no GPU is available, and a remedy; "" if there is one.
};

/// Interface of libweft_cuda.so for the programs that load it. Thread-safe.
class CudaPlugin {
 public:
  virtual ~CudaPlugin() = default;
  /// Detects the driver and its GPUs. Does not throw if any is missing.
  virtual CudaSupport support() const = 0;
  /// Throws Error(kFailedPrecondition) if the GPU does not exist.
  virtual std::unique_ptr<Device> make_device(const CudaDeviceOptions& options) const = 0;

  // Arguments of open_plugin().
  static constexpr const char* kFile = "libweft_cuda.so";
  static constexpr const char* kEntry = "weft_cuda_plugin";
  static constexpr std::uint64_t stamp() {
    return plugin_stamp(4, {static_cast<std::size_t>(last_enumerator<OpKind>::kValue), sizeof(Op),
                            sizeof(TensorType), sizeof(AdamW), sizeof(AdamWParameter),
                            sizeof(CudaDeviceOptions), sizeof(CudaSupport)});
  }
};

}  // namespace weft
