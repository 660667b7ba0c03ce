#pragma once

#include <memory>

#include "core/cuda_support/cuda_plugin.h"
#include "core/cuda_support/plugin_search.h"
#include "core/device/device.h"

namespace weft {

/// Returns the CUDA capabilities of this process; `missing` says why there are none. The first call
/// loads the plugin and CUDA's libraries, which takes about a second. Thread-safe.
CudaSupport cuda_support(const PluginSearch& search);

/// Returns a GPU as a Device. Throws Error(kFailedPrecondition) with `missing` of cuda_support(),
/// or if the GPU does not exist.
std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options,
                                         const PluginSearch& search);

}  // namespace weft
