#include "core/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace weft {

std::string machine_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

unsigned num_processors() {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0) return CPU_COUNT(&usable);
  // the machine has more processors than a cpu_set_t can hold
  return std::thread::hardware_concurrency();
}

}  // namespace weft
