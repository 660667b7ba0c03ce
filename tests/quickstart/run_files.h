#pragma once

#include "tests/support/real_processes.h"

namespace weft::test {

/// A small text, and the shipped run file, in the folder that the processes start in.
void write_run_files(RealProcesses& processes);

}  // namespace weft::test
