#pragma once

#include <string>

namespace weft::transfer {

/// Addresses of the interfaces in a list: "10.9.0.1 (eth0)"; "any interface" for an empty list.
std::string describe_network(const std::string& interfaces);

/// What to do where two hosts do not reach each other: the setting that chooses interfaces, and the
/// variables of UCX that are set.
std::string network_advice();

}  // namespace weft::transfer
