#pragma once

#include <span>
#include <vector>

#include "transfer/nccl/device_collectives.h"
#include "transfer/nccl_plugin/internal/launch.h"

namespace weft::transfer {

/// The launches that do `copies`. Dimensions beyond the kernel's become copies of their own.
std::vector<BoxCopies> box_copies(std::span<const DeviceCopy> copies);

}  // namespace weft::transfer
