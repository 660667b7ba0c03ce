#pragma once

#include <string>

namespace weft {

/// Returns the host name of this machine (gethostname()). Several hosts of a cluster may share one
/// machine.
std::string machine_name();

/// Returns the number of processors that this process may use.
unsigned num_processors();

}  // namespace weft
