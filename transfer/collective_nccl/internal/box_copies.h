#pragma once

#include <span>
#include <vector>

#include "transfer/collective_nccl/internal/launch.h"
#include "transfer/collective_queue/device_collectives.h"

namespace weft::transfer {

/// The launches that do `copies`. Dimensions beyond the kernel's become copies of their own.
std::vector<BoxCopies> box_copies(std::span<const DeviceCopy> copies);

}  // namespace weft::transfer
