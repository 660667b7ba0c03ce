#pragma once

#include <memory>

#include "core/cuda_support/cuda_plugin.h"
#include "core/cuda_support/plugin_search.h"
#include "core/device/device.h"

namespace weft {

/// What this process can do with CUDA; `missing` says why it cannot. Opens the plugin and CUDA's
/// libraries, which takes a second the first time. Any thread.
CudaSupport cuda_support(const PluginSearch& search);

/// A GPU as a device. Throws Error(kFailedPrecondition) with what cuda_support() says is missing,
/// or if there is no GPU of that number.
std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options,
                                         const PluginSearch& search);

}  // namespace weft
