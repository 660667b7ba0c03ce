#pragma once

#include <string>

namespace weft::transfer {

/// What NCCL 2.28 derives its host from, for DevicePlace: NCCL_HOSTID if that is set, else the
/// host's name with the kernel's boot id.
std::string collective_host_name();

}  // namespace weft::transfer
