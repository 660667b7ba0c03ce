#pragma once

#include "tests/contract/kernels/kernel_runners.h"

namespace weft::test {

/// Runners that the tests of the kernel contract share.
inline SharedRunners<KernelRunner>& contract_runners = add_shared_runners<KernelRunner>();

}  // namespace weft::test
