#pragma once

#include <string>

namespace weft {

/// What this machine calls itself (gethostname()): several hosts of a cluster may be one machine.
std::string machine_name();

/// How many processors this process may use.
unsigned num_processors();

}  // namespace weft
