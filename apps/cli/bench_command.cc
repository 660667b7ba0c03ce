// weft bench NAME: executes the program of all benchmarks, which is in the same folder.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "actors/launch/cluster_config.h"
#include "apps/cli/commands.h"
#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::apps {

int run_benchmark(const std::vector<std::string>& arguments) {
  const std::vector<std::string> names = {"reshard", "pipeline", "sharding", "duplex", "select"};
  if (arguments.empty() || std::ranges::find(names, arguments[0]) == names.end())
    throw_error(ErrorCode::kInvalidArgument,
                "which benchmark? There are five: weft bench reshard --help, weft bench pipeline "
                "--help, weft bench sharding --help, weft bench duplex --help, weft bench select "
                "--help{}",
                arguments.empty() ? "" : did_you_mean(arguments[0], names));
  const std::string program = actors::program_directory() / "weft-bench";
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  if (errno == ENOENT)
    throw_error(ErrorCode::kNotFound, "{} does not exist{}", program,
                actors::build_hint(actors::program_directory(), "weft_apps_bench"));
  throw_error(ErrorCode::kNotFound, "cannot run {}: {}", program, ::strerror(errno));
}

}  // namespace weft::apps
