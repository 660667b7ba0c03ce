// weft gpus.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "core/base/terminal.h"
#include "core/cuda_support/cuda_support.h"

namespace weft::apps {

int run_gpus(bool json) {
  const CudaSupport support = cuda_support(plugin_search(plugin_places()));
  if (json) {
    const nlohmann::ordered_json record = {{"gpus", support.gpus},
                                           {"driver", support.driver},
                                           {"runtime", support.runtime},
                                           {"missing", support.unavailable_reason}};
    say(stdout, "{}\n", record.dump(2));
  } else if (support.gpus.empty()) {
    say(stdout, "{}\n",
        wrapped_for_terminal(STDOUT_FILENO,
                             "no GPU can be used here: " + support.unavailable_reason));
  } else {
    for (std::size_t gpu = 0; gpu < support.gpus.size(); ++gpu)
      say(stdout, "GPU {}: {}\n", gpu, support.gpus[gpu]);
    say(stdout, "CUDA {} on a driver for {}\n", support.runtime, support.driver);
  }
  return support.gpus.empty() ? 1 : 0;
}

}  // namespace weft::apps
