#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/plugin_stamp.h"
#include "transfer/nccl/device_collectives.h"

namespace weft::transfer {

struct CollectivesOptions {
  int gpu = 0;  ///< GPU index, as in CudaDeviceOptions::gpu.
  /// Limit of thread blocks per operation. More are faster on many links, and leave less of the GPU
  /// for computation.
  int max_blocks = 8;
};

/// Interface of libweft_nccl.so for the programs that open it (open_gpu_plugin()).
/// It is a separate library because GPUs work without NCCL, through host memory. The error of
/// opening it becomes DeviceCapabilities::library_error. Any thread.
class CollectivesPlugin {
 public:
  virtual ~CollectivesPlugin() = default;
  /// Returns the library and its version, such as "NCCL 2.28.9"; see
  /// DeviceCollectives::description().
  virtual std::string library() const = 0;
  /// Returns the path of the library's file.
  virtual std::string library_file() const = 0;
  /// Returns the PCI bus id of a GPU, for DeviceCapabilities. Throws Error(kFailedPrecondition) if
  /// there is no such GPU, or no driver.
  virtual std::string processor(int gpu) const = 0;
  /// Creates the collectives for the thread that uses the GPU's device. A missing GPU is detected
  /// only when the first communicator is created.
  virtual std::unique_ptr<DeviceCollectives> make_collectives(
      const CollectivesOptions& options) const = 0;

  // Arguments of open_plugin().
  static constexpr const char* kFile = "libweft_nccl.so";
  static constexpr const char* kEntry = "weft_nccl_plugin";
  static constexpr std::uint64_t stamp() {
    return plugin_stamp(
        2, {static_cast<std::size_t>(last_enumerator<CallKind>::kValue), sizeof(DeviceCall),
            sizeof(DeviceCopy), sizeof(DeviceSum), sizeof(CollectivesOptions)});
  }
};

}  // namespace weft::transfer
