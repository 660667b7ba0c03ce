#pragma once

#include <memory>

#include "core/cuda_support/plugin_search.h"
#include "transfer/nccl/collectives_plugin.h"

namespace weft::transfer {

/// Opens libweft_nccl.so and the NCCL that it needs. Throws Error(kFailedPrecondition) with what is
/// missing and what to do: it becomes DevicePlace::library_absent. Any thread.
std::unique_ptr<CollectivesPlugin> open_collectives(const PluginSearch& search);

}  // namespace weft::transfer
