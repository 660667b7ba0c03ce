#pragma once

#include "tests/support/real_processes.h"

namespace weft::test {

/// Writes a small text and the shipped run file to the processes' working directory.
void write_run_files(RealProcesses& processes);

}  // namespace weft::test
