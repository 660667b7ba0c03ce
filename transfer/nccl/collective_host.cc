#include "transfer/nccl/collective_host.h"

#include <cstdlib>
#include <fstream>

#include "core/base/machine.h"

namespace weft::transfer {

std::string collective_host_name() {
  // Read once when the process starts, before there are other threads; nothing sets variables.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr) return id;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return machine_name() + " " + boot;
}

}  // namespace weft::transfer
