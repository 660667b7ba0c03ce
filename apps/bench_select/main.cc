// weft bench select: selects from a generated or stored ground set with memory-capped workers, and
// compares them with greedy selection in one process that holds everything. Also runs the paper's
// grid.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/cluster_config.h"
#include "apps/bench_select/selection_bench.h"
#include "apps/bench_select/selection_plot.h"
#include "apps/cli/end_parsing.h"
#include "apps/run_files/progress_display.h"
#include "apps/selection/generated_points.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/non_blocking_output.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

extern char** environ;

namespace weft::apps {
namespace {

struct BenchOptions {
  std::uint64_t points = 1'000'000;
  std::filesystem::path store;
  double percent = 10;
  std::vector<std::int64_t> weights = {9, 1};
  std::vector<std::uint32_t> partitions = {16}, rounds = {2}, workers = {1, 2};
  std::string memory = "160MiB";
  std::string bounding = "off";
  std::uint64_t seed = 1;
  bool grid = false, no_central = false, central_only = false;
  std::string json;
  std::filesystem::path out = "runs/bench-select";
};

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

std::uint64_t count_of(const BenchOptions& options, std::uint64_t points) {
  return static_cast<std::uint64_t>(static_cast<double>(points) * options.percent / 100);
}

SelectionBenchCase case_of(const BenchOptions& options) {
  const std::uint64_t points = PointStore(options.store).layout().points;
  return {options.store,
          count_of(options, points),
          {options.weights[0], options.weights[1]},
          options.seed};
}

int print_central(const BenchOptions& options) {
  const CentralResult result = choose_centrally(case_of(options));
  const nlohmann::ordered_json json = {{"score", result.score},
                                       {"random_score", result.random_score},
                                       {"load_seconds", result.load_seconds},
                                       {"greedy_seconds", result.greedy_seconds},
                                       {"peak_bytes", result.peak_bytes}};
  say(stdout, "{}\n", json.dump());
  return 0;
}

std::vector<std::string> child_arguments(const BenchOptions& options) {
  return {std::filesystem::read_symlink("/proc/self/exe").string(),
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

/// Runs central greedy in a child process, so that the peak memory is that of greedy alone.
CentralResult run_central(const BenchOptions& options) {
  const auto output = options.out / "central.json";
  if (const int status = run_child(child_arguments(options), output); status != 0)
    throw_error(ErrorCode::kInternal, "greedy in one process ended with {}: {}", status,
                text_of(output));
  const auto json = nlohmann::json::parse(text_of(output));
  return {json.at("score").get<std::int64_t>(), json.at("random_score").get<std::int64_t>(),
          json.at("load_seconds").get<double>(), json.at("greedy_seconds").get<double>(),
          json.at("peak_bytes").get<std::uint64_t>()};
}

/// Runs `app: select` once and returns its summary.
nlohmann::ordered_json run_select(const BenchOptions& options, std::uint32_t partitions,
                                  std::uint32_t rounds, std::uint32_t workers) {
  const auto file = options.out / "select.yaml";
  const std::string config = fmt::format(
      "name: bench\napp: select\ncluster: {{memory: {}, hosts: [{{name: worker0, devices: {}}}]}}\n"
      "input: {{points: {}}}\nselection: {{budget: {}%, weights: [{}, {}], bounding: {}, "
      "partitions: {}, rounds: {}, seed: {}}}\nscratch: {}\n",
      options.memory, workers, std::filesystem::absolute(options.store).string(), options.percent,
      options.weights[0], options.weights[1], options.bounding, partitions, rounds, options.seed,
      std::filesystem::absolute(options.out / "scratch").string());
  write_in_place(file, config);
  const auto out = options.out / "run";
  std::filesystem::remove_all(out);
  const auto output = options.out / "run.txt";
  const std::string weft = actors::program_directory() / "weft";
  if (const int status = run_child({weft, "run", file.string(), "--out", out.string()}, output);
      status != 0)
    throw_error(ErrorCode::kInternal, "weft run {} ended with {}:\n{}", file.string(), status,
                text_of(output));
  return nlohmann::ordered_json::parse(text_of(out / "summary.json"));
}

int run_bench(BenchOptions options) {
  // Standard output carries the result if --json is "-", so writes to it block until it is read.
  const NonBlockingOutput output(options.json == "-" ? NonBlockingOutput::Streams::kErrorOnly
                                                     : NonBlockingOutput::Streams::kBoth);
  std::filesystem::create_directories(options.out);
  if (options.store.empty()) {
    options.store = options.out / fmt::format("points-{}", options.points);
    if (!std::filesystem::exists(options.store / "points.json")) {
      say(stdout, "generating {} points ...\n", options.points);
      std::fflush(stdout);
      generate_points(options.store, {.points = options.points});
    }
  }
  const PointStore store(options.store);
  const std::uint64_t points = store.layout().points;
  say(stdout, "{} points, {} directed edges, {} on disk; {} to choose, weights {}:{}\n", points,
      store.num_edges(), format_bytes(8 * points + 6 * store.num_edges()),
      count_of(options, points), options.weights[0], options.weights[1]);
  std::optional<CentralResult> central;
  nlohmann::ordered_json json = {{"points", points}, {"arms", nlohmann::ordered_json::array()}};
  if (!options.no_central) {
    central = run_central(options);
    say(stdout,
        "one process, everything in memory: greedy {} ({:.2f} M points/s), loading {}, {} at "
        "most\n",
        format_seconds(central->greedy_seconds),
        static_cast<double>(points) / central->greedy_seconds / 1e6,
        format_seconds(central->load_seconds), format_bytes(central->peak_bytes));
    json["central"] = {{"score", central->score},
                       {"random_score", central->random_score},
                       {"greedy_seconds", central->greedy_seconds},
                       {"load_seconds", central->load_seconds},
                       {"peak_bytes", central->peak_bytes}};
  }
  const std::string title = fmt::format(
      "{} of {} points chosen, weights {}:{}",
      with_thousands(static_cast<double>(count_of(options, points))),
      with_thousands(static_cast<double>(points)), options.weights[0], options.weights[1]);
  if (options.grid) {
    const auto cells = run_grid(case_of(options), 750);
    say(stdout, "{}", grid_text(cells, *central));
    json["grid"] = nlohmann::ordered_json::parse(grid_json(cells, *central));
    draw_grid(cells, *central, title).write(options.out / "grid.svg");
  } else {
    say(stdout, "\n{:>10} {:>7} {:>8} {:>10} {:>9} {:>12} {:>10} {:>8}  {}\n", "partitions",
        "rounds", "workers", "f / point", "of gap", "visits/s", "seconds", "peak", "digest");
    std::vector<BenchArm> arms;
    if (central)
      arms.push_back({"one process", static_cast<double>(points) / central->greedy_seconds,
                      static_cast<double>(central->peak_bytes), 1});
    for (const std::uint32_t partitions : options.partitions) {
      for (const std::uint32_t rounds : options.rounds) {
        for (const std::uint32_t workers : options.workers) {
          const auto run = run_select(options, partitions, rounds, workers);
          std::uint64_t peak = 0;
          for (const auto& use : run.at("workers"))
            peak = std::max(peak, use.at("peak_bytes").get<std::uint64_t>());
          const double seconds = run.at("seconds").get<double>();
          say(stdout, "{:>10} {:>7} {:>8} {:>10.5f} {:>9} {:>12.0f} {:>10.2f} {:>8}  {}\n",
              partitions, rounds, workers, run.at("score_per_point").get<double>(),
              central
                  ? fmt::format("{:.3f}", gap_closed(run.at("score").get<std::int64_t>(), *central))
                  : "-",
              run.at("point_visits").get<double>() / seconds, seconds, format_bytes(peak),
              run.at("digest").get<std::string>().substr(0, 12));
          std::fflush(stdout);
          json["arms"].push_back(run);
          arms.push_back({fmt::format("m = {}, r = {}, {} worker{}", partitions, rounds, workers,
                                      workers == 1 ? "" : "s"),
                          run.at("point_visits").get<double>() / seconds,
                          static_cast<double>(peak)});
          if (central)
            arms.back().gap_closed = gap_closed(run.at("score").get<std::int64_t>(), *central);
        }
      }
    }
    draw_arms(arms, title).write(options.out / "arms.svg");
  }
  write_in_place(options.out / "results.json", json.dump(2) + "\n");
  if (options.json == "-") say(stdout, "{}\n", json.dump(2));
  else if (!options.json.empty()) write_in_place(options.json, json.dump(2) + "\n");
  say(options.json == "-" ? stderr : stdout,
      "\n{0}/results.json has all of it, {0}/{1}.svg is a picture\n", options.out.string(),
      options.grid ? "grid" : "arms");
  return 0;
}

int parse_and_run(int argc, char** argv) {
  BenchOptions options;
  CLI::App app(
      "Compare subset selection by memory-limited workers with greedy selection in one process.",
      "weft bench select");
  app.footer("Example:\n  weft bench select --points 100000");
  app.get_formatter()->column_width(34);
  app.add_option("--points", options.points, "Points to generate (reused by later runs)")
      ->capture_default_str();
  app.add_option("--store", options.store, "Existing ground set to use instead")->type_name("DIR");
  app.add_option("--percent", options.percent, "Percentage of the points to choose")
      ->check(CLI::Range(0.001, 100.0))
      ->capture_default_str();
  app.add_option("--weights", options.weights, "Weights of utility and similarity")
      ->delimiter(',')
      ->expected(2)
      ->capture_default_str();
  app.add_option("--partitions", options.partitions, "Numbers of partitions to measure")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Numbers of rounds to measure")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--workers", options.workers, "Numbers of workers to measure")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--memory", options.memory, "Cap on each worker; 0: none")->capture_default_str();
  app.add_option("--bounding", options.bounding, "off, exact or uniform")->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of partitions and ties")->capture_default_str();
  app.add_flag("--grid", options.grid,
               "The paper's tables, in memory: m = 2..32, r = 1..32, adaptive and fixed");
  app.add_flag("--no-central", options.no_central,
               "Skip greedy in one process (if it does not fit into memory)");
  app.add_flag("--central-only", options.central_only, "One process, as JSON")->group("");
  app.add_option("--json", options.json, "Write the results there; - for stdout")
      ->type_name("FILE");
  app.add_option("--out", options.out, "Folder for points, results and scratch")
      ->capture_default_str()
      ->type_name("DIR");
  if (const std::optional<int> status = parse_words(app, argc, argv)) return *status;
  try {
    if (options.central_only) return print_central(options);
    if (options.grid && options.no_central)
      throw_error(ErrorCode::kInvalidArgument, "--grid needs greedy in one process");
    return run_bench(std::move(options));
  } catch (const Error& error) {
    say(stderr, "weft bench select: {}\n", error.message());
    return 1;
  }
}

}  // namespace
}  // namespace weft::apps

int main(int argc, char** argv) { return weft::apps::parse_and_run(argc, argv); }
