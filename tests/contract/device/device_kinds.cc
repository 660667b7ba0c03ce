#include "tests/contract/device/device_kinds.h"

#include "core/device_cpu/cpu_device.h"
#include "tests/support/detached_device.h"

namespace weft::test {

std::vector<KindOfDevice> device_kinds() {
  return {
      {"cpu", [] { return std::make_unique<CpuDevice>(); }},
      {"detached", [] { return std::make_unique<DetachedDevice>(DetachedOptions{.shuffle_seed = 1}); }},
  };
}

}  // namespace weft::test
