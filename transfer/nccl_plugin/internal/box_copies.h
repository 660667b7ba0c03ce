#pragma once

#include <span>
#include <vector>

#include "transfer/nccl/device_collectives.h"
#include "transfer/nccl_plugin/internal/launch.h"

namespace weft::transfer {

/// Groups `copies` into launches. Dimensions beyond the kernel's limit become separate copies.
std::vector<BoxCopies> box_copies(std::span<const DeviceCopy> copies);

}  // namespace weft::transfer
