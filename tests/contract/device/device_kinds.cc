#include "tests/contract/device/device_kinds.h"

#include "core/cpu/cpu_device.h"
#include "core/cuda_support/cuda_support.h"
#include "tests/support/detached_device.h"

namespace weft::test {

std::vector<KindOfDevice> device_kinds() {
  return {
      {"cpu", [] { return std::make_unique<CpuDevice>(); }},
      {"cuda", [] { return make_cuda_device({}, plugin_search(plugin_places())); }},
      {"detached",
       [] { return std::make_unique<DetachedDevice>(DetachedOptions{.shuffle_seed = 1}); }},
  };
}

}  // namespace weft::test
