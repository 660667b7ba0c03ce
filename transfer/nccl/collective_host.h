#pragma once

#include <string>

namespace weft::transfer {

/// Returns the string by which NCCL 2.28 identifies this host, for DeviceCapabilities: NCCL_HOSTID
/// if it is set, otherwise the host's name with the kernel's boot id.
std::string collective_host_name();

}  // namespace weft::transfer
