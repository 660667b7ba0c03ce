#include "transfer/nccl/collective_host.h"

#include <cstdlib>
#include <fstream>

#include "core/base/machine.h"

namespace weft::transfer {

std::string collective_host_name() {
  // Safe: called at process start, before other threads exist, and no code sets variables.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr) return id;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return machine_name() + " " + boot;
}

}  // namespace weft::transfer
