#include "apps/bench/select/child_runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "actors/launch/cluster_config.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"

extern char** environ;

namespace weft::apps {
namespace {

/// Runs a child process to its end with this process's environment. Its output goes to a file.
/// Returns its exit status, or 128 plus the signal that ended it.
int run_child(std::vector<std::string> words, const std::filesystem::path& output) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    throw_error(ErrorCode::kNotFound, "cannot run {}: {}", words[0], std::strerror(failed));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> child_arguments(const SelectBenchOptions& options) {
  return {std::filesystem::read_symlink("/proc/self/exe").string(),
          "select",
          "--store",
          options.store.string(),
          "--percent",
          fmt::format("{}", options.percent),
          "--weights",
          fmt::format("{},{}", options.weights[0], options.weights[1]),
          "--seed",
          std::to_string(options.seed),
          "--central-only"};
}

}  // namespace

CentralResult run_central(const SelectBenchOptions& options, const std::filesystem::path& folder) {
  const auto output = folder / "central.json";
  if (const int status = run_child(child_arguments(options), output); status != 0)
    throw_error(ErrorCode::kInternal, "greedy in one process ended with {}: {}", status,
                text_of(output));
  const auto json = nlohmann::json::parse(text_of(output));
  return {json.at("score").get<std::int64_t>(), json.at("random_score").get<std::int64_t>(),
          json.at("load_seconds").get<double>(), json.at("greedy_seconds").get<double>(),
          json.at("peak_bytes").get<std::uint64_t>()};
}

nlohmann::ordered_json run_select(const SelectBenchOptions& options, const SelectArm& arm,
                                  const std::filesystem::path& folder) {
  const auto file = folder / "select.yaml";
  const std::string config = fmt::format(
      "name: bench\napp: select\ncluster: {{memory: {}, hosts: [{{name: worker0, devices: {}}}]}}\n"
      "input: {{points: {}}}\nselection: {{budget: {}%, weights: [{}, {}], bounding: {}, "
      "partitions: {}, rounds: {}, seed: {}}}\nscratch: {}\n",
      options.memory, arm.workers, std::filesystem::absolute(options.store).string(),
      options.percent, options.weights[0], options.weights[1], options.bounding, arm.partitions,
      arm.rounds, options.seed, std::filesystem::absolute(folder / "scratch").string());
  write_in_place(file, config);
  const auto out = folder / "run";
  std::filesystem::remove_all(out);
  const auto output = folder / "run.txt";
  const std::string weft = actors::program_directory() / "weft";
  if (const int status = run_child({weft, "run", file.string(), "--out", out.string()}, output);
      status != 0)
    throw_error(ErrorCode::kInternal, "weft run {} ended with {}:\n{}", file.string(), status,
                text_of(output));
  return nlohmann::ordered_json::parse(text_of(out / "summary.json"));
}

}  // namespace weft::apps
