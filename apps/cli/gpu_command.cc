// weft gpus.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "core/cuda_support/cuda_support.h"

namespace weft::apps {

int run_gpus(bool json) {
  const CudaSupport support = cuda_support(plugin_search(plugin_places()));
  if (json) {
    const nlohmann::ordered_json record = {
        {"gpus", support.gpus}, {"driver", support.driver}, {"runtime", support.runtime}, {"missing", support.missing}};
    fmt::print("{}\n", record.dump(2));
  } else if (support.gpus.empty()) {
    fmt::print("no GPU can be used here: {}\n", support.missing);
  } else {
    for (std::size_t gpu = 0; gpu < support.gpus.size(); ++gpu) fmt::print("GPU {}: {}\n", gpu, support.gpus[gpu]);
    fmt::print("CUDA {} on a driver for {}\n", support.runtime, support.driver);
  }
  return support.gpus.empty() ? 1 : 0;
}

}  // namespace weft::apps
