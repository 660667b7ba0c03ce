#include "transfer/nccl/collective_host.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

namespace weft::transfer {

std::string collective_host_name() {
  // Read once when the process starts, before there are other threads; nothing sets variables.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr) return id;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(name.data()) + " " + boot;
}

}  // namespace weft::transfer
