#include "core/base/machine.h"

#include <unistd.h>

#include <array>

namespace weft {

std::string machine_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace weft
