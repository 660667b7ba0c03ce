#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/cuda_support/plugin_stamp.h"
#include "transfer/nccl/device_collectives.h"

namespace weft::transfer {

struct CollectivesOptions {
  int gpu = 0;  ///< As CudaDeviceOptions::gpu.
  /// Blocks of threads that one operation may occupy: more are faster on many links, and leave less
  /// of the GPU for computation.
  int max_blocks = 8;
};

/// What libweft_nccl.so offers to the programs that open it (open_plugin<CollectivesPlugin>()). It
/// is a library of its own because GPUs are of use without NCCL, through host memory; why it cannot
/// be opened becomes DevicePlace::library_absent. Any thread.
class CollectivesPlugin {
 public:
  virtual ~CollectivesPlugin() = default;
  /// "NCCL 2.28.9": DeviceCollectives::description().
  virtual std::string library() const = 0;
  /// The PCI bus id of a GPU, for DevicePlace. Throws Error(kFailedPrecondition) if there is no
  /// such GPU, or no driver.
  virtual std::string processor(int gpu) const = 0;
  /// For the thread that uses the GPU's device. Whether there is such a GPU is seen when the first
  /// communicator is created.
  virtual std::unique_ptr<DeviceCollectives> make_collectives(
      const CollectivesOptions& options) const = 0;

  // See open_plugin().
  static constexpr const char* kLibrary = "weft_nccl";
  static constexpr const char* kEntry = "weft_nccl_plugin";
  static constexpr std::uint64_t stamp() {
    return plugin_stamp(
        1, {static_cast<std::size_t>(last_enumerator<CallKind>::kValue), sizeof(DeviceCall),
            sizeof(DeviceCopy), sizeof(DeviceSum), sizeof(CollectivesOptions)});
  }
};

}  // namespace weft::transfer
