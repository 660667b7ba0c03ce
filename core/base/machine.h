#pragma once

#include <string>

namespace weft {

/// What this machine calls itself (gethostname()): several hosts of a cluster may be one machine.
std::string machine_name();

}  // namespace weft
