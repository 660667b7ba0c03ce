#include "apps/bench/bench_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "actors/launch/cluster_config.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/role_arguments.h"
#include "actors/supervision/signal_handler.h"
#include "apps/bench/test_hosts.h"
#include "apps/cli/end_parsing.h"
#include "core/base/clock.h"
#include "core/base/descriptors.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace {

/// Returns the benchmark that `words[0]` names. Throws Error(kInvalidArgument) if there is none.
BenchProgram& find_benchmark(const std::vector<std::string>& words,
                             const std::vector<std::unique_ptr<BenchProgram>>& benchmarks) {
  std::vector<std::string> commands;
  for (const auto& benchmark : benchmarks) {
    const BenchProgram::Description about = benchmark->description();
    if (!words.empty() && words[0] == about.name) return *benchmark;
    commands.push_back(about.command() + " --help");
  }
  const std::string problem =
      words.empty() ? "no benchmark is named" : "there is no benchmark '" + words[0] + "'";
  throw_error(ErrorCode::kInvalidArgument, "{}; run one of {}", problem, fmt::join(commands, ", "));
}

/// Reads the command line and measures. Returns the exit status.
int parse_and_measure(int argc, char** argv, BenchProgram& program) {
  const BenchProgram::Description about = program.description();
  CLI::App app(about.purpose, about.command());
  app.footer("Example:\n  " + about.example);
  app.get_formatter()->column_width(34);
  program.add_options(app);
  std::string json;
  std::filesystem::path folder = about.folder;
  app.add_option("--json", json, "Write the results there; - for stdout")->type_name("FILE");
  app.add_option("--out", folder, "Folder for " + about.folder_holds)
      ->capture_default_str()
      ->type_name("DIR");
  if (const std::optional<int> status = parse_words(app, argc, argv)) return *status;
  if (const std::optional<int> status = program.complete_options(app)) return *status;
  return program.measure(BenchOutput(std::move(folder), std::move(json)));
}

}  // namespace

BenchOutput::BenchOutput(std::filesystem::path folder, std::string json)
    : folder_(std::move(folder)),
      json_(std::move(json)),
      // The document of --json - goes to standard output, where writes must block until it is read.
      output_(json_ == "-" ? NonBlockingOutput::Streams::kErrorOnly
                           : NonBlockingOutput::Streams::kBoth) {
  make_folders(folder_, "choose another folder with --out");
}

void BenchOutput::print(std::string_view text) const {
  say(terminal(), "{}", text);
  std::fflush(terminal());
}

void BenchOutput::report_progress(const std::string& line) {
  say(stderr, "{}\n", line);
  std::fflush(stderr);
}

void BenchOutput::save(const std::string& json) const {
  write_in_place(folder_ / "results.json", json);
}

void BenchOutput::publish(const std::string& json) const {
  save(json);
  if (json_ == "-") say(stdout, "{}", json);
  else if (!json_.empty()) write_in_place(json_, json);
}

int run_bench_program(int argc, char** argv,
                      const std::vector<std::unique_ptr<BenchProgram>>& benchmarks) {
  open_standard_descriptors();
  raise_descriptor_limit();
  std::string name = "weft bench";
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (actors::role_of(words)) {
      actors::AppMain app(argc, argv);
      for (const auto& benchmark : benchmarks) benchmark->register_actors(app);
      return app.run([](actors::Cluster&, const actors::AppRun&) { return 2; });
    }
    BenchProgram& program = find_benchmark(words, benchmarks);
    name = program.description().command();
    return exit_status_after_flush(name, parse_and_measure(argc - 1, argv + 1, program));
  } catch (...) {
    const Error error = current_error();
    say(stderr, "{}\n",
        wrapped_for_terminal(STDERR_FILENO, fmt::format("{}: {}", name, error.message())));
    return error.code() == ErrorCode::kInvalidArgument ? 2 : 1;
  }
}

int run_until_signal(const std::function<int(const std::stop_token&)>& work) {
  std::stop_source stop;
  actors::EndRequestFilter requests(actors::EndRequestFilter::Parent::kNone);
  // A second signal ends the process at once. Its child processes detect that and exit too.
  const actors::SignalHandler signals([&](const actors::ReceivedSignal& signal) {
    if (!signal.asks_to_end()) return;
    if (requests.add(signal, SteadyClock().now()) == actors::EndRequestFilter::Kind::kSecond)
      ::_exit(actors::kInterrupted);
    stop.request_stop();
  });
  try {
    return work(stop.get_token());
  } catch (const Error&) {
    if (stop.stop_requested()) return actors::kInterrupted;
    throw;
  }
}

TestCluster::Options bench_cluster_options(const BenchProgram::Description& bench,
                                           const BenchOutput& output, int hosts, bool loopback,
                                           const std::string& consequence) {
  TestCluster::Options options;
  options.name = bench.command();
  options.executable = std::filesystem::read_symlink("/proc/self/exe");
  options.directory = output.folder() / "cluster";
  options.hosts = hosts;
  const auto tool = actors::program_directory() / "weft-hosts";
  const std::string refusal =
      loopback ? "asked for with --loopback" : TestHosts::unsupported_because(tool);
  if (refusal.empty()) options.hosts_tool = tool;
  else
    say(output.terminal(), "Running on this machine's loopback: {} ({})\n", consequence, refusal);
  return options;
}

}  // namespace weft::apps
