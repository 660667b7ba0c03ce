// weft gpus.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/cuda_support/cuda_support.h"
#include "core/cuda_support/open_gpu_plugin.h"
#include "transfer/nccl/collectives_plugin.h"

namespace weft::apps {
namespace {

/// Returns NCCL as loaded, or the reason why it cannot be.
LoadedLibrary nccl(const PluginSearch& search) {
  try {
    const auto plugin = open_gpu_plugin<transfer::CollectivesPlugin>(search);
    const std::string named = plugin->library();  // "NCCL 2.28.9"
    const std::size_t blank = named.find(' ');
    return {named.substr(0, blank), blank == named.npos ? "" : named.substr(blank + 1),
            plugin->library_file()};
  } catch (const Error& error) {
    return {"NCCL", "", "not usable: " + error.message()};
  }
}

}  // namespace

int run_gpus(bool json) {
  const PluginSearch search = plugin_search(plugin_places());
  const CudaSupport support = cuda_support(search);
  std::vector<LoadedLibrary> libraries = support.libraries;
  // NCCL is told beside the CUDA plugin only: a missing plugin is the reason for both.
  if (!libraries.empty()) libraries.push_back(nccl(search));
  if (json) {
    nlohmann::ordered_json record = {{"gpus", support.gpus},
                                     {"driver", support.driver},
                                     {"runtime", support.runtime},
                                     {"missing", support.unavailable_reason},
                                     {"libraries", nlohmann::ordered_json::array()}};
    for (const LoadedLibrary& library : libraries)
      record["libraries"].push_back(
          {{"name", library.name}, {"version", library.version}, {"file", library.file}});
    say(stdout, "{}\n", record.dump(2));
  } else {
    for (std::size_t gpu = 0; gpu < support.gpus.size(); ++gpu)
      say(stdout, "GPU {}: {}\n", gpu, support.gpus[gpu]);
    if (support.gpus.empty())
      say(stdout, "{}\n",
          wrapped_for_terminal(STDOUT_FILENO,
                               "no GPU can be used here: " + support.unavailable_reason));
    else say(stdout, "CUDA {} on a driver for {}\n", support.runtime, support.driver);
    for (const LoadedLibrary& library : libraries)
      say(stdout, "{}\n",
          wrapped_for_terminal(STDOUT_FILENO, fmt::format("{:12} {:8} {}", library.name,
                                                          library.version, library.file)));
  }
  return support.gpus.empty() ? 1 : 0;
}

}  // namespace weft::apps
