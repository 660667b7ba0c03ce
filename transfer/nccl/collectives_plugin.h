#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transfer/nccl/device_collectives.h"

namespace weft::transfer {

struct CollectivesOptions {
  int gpu = 0;  ///< As CudaDeviceOptions::gpu.
  /// Blocks of threads that one operation may occupy: more are faster on many links, and leave less
  /// of the GPU for computation.
  int max_blocks = 8;
};

/// What libweft_nccl.so offers to the programs that open it. Any thread.
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
};

/// The plugin's one entry point, `extern "C" weft::transfer::CollectivesPlugin*
/// weft_nccl_plugin(std::uint64_t stamp)`: a plugin that the caller owns, or null if it was built
/// from other sources than the caller, which its stamp tells.
using CollectivesPluginEntry = CollectivesPlugin*(std::uint64_t stamp);
inline constexpr const char* kCollectivesPluginEntry = "weft_nccl_plugin";

/// Changes with what program and plugin must agree on: raise `kVersion` when a virtual function
/// changes.
constexpr std::uint64_t collectives_plugin_stamp() {
  constexpr std::uint64_t kVersion = 1;
  std::uint64_t stamp = kVersion;
  for (const std::size_t part :
       {static_cast<std::size_t>(last_enumerator<CallKind>::kValue), sizeof(DeviceCall),
        sizeof(DeviceCopy), sizeof(DeviceSum), sizeof(CollectivesOptions)}) {
    stamp = stamp * 1000003 + part;
  }
  return stamp;
}

}  // namespace weft::transfer
