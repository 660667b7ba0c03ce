#pragma once

#include <string>

namespace weft::transfer {

/// Formats the addresses of the interfaces in a list, such as "10.9.0.1 (eth0)". Returns "any
/// interface" for an empty list.
std::string describe_network(const std::string& interfaces);

/// Returns advice for hosts that cannot reach each other: the setting that chooses interfaces, and
/// the UCX variables that are set.
std::string network_advice();

}  // namespace weft::transfer
