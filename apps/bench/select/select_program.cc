#include "apps/bench/select/select_program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/select/child_runs.h"
#include "apps/bench/select/selection_bench.h"
#include "apps/bench/select/selection_plot.h"
#include "apps/run_files/progress_display.h"
#include "apps/selection/generated_points.h"
#include "apps/selection/point_store.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

SelectionBenchCase selection_case(const SelectBenchOptions& options) {
  return {options.store,
          options.num_chosen(PointStore(options.store).layout().points),
          {options.weights[0], options.weights[1]},
          options.seed};
}

/// Prints the result of greedy in this process as JSON, for the process that runs it as a child.
void print_central(const SelectBenchOptions& options) {
  const CentralResult result = choose_centrally(selection_case(options));
  const nlohmann::ordered_json json = {{"score", result.score},
                                       {"random_score", result.random_score},
                                       {"load_seconds", result.load_seconds},
                                       {"greedy_seconds", result.greedy_seconds},
                                       {"peak_bytes", result.peak_bytes}};
  say(stdout, "{}\n", json.dump());
}

/// Measurement of one ground set: greedy in one process, then the grid or workers.
class SelectBench final {
 public:
  /// Generates the points unless `options` has a store.
  SelectBench(const SelectBenchOptions& options, const BenchOutput& output)
      : options_(options), output_(output) {
    if (options_.store.empty()) generate();
    const PointStore store(options_.store);
    points_ = store.layout().points;
    json_ = {{"points", points_}, {"arms", nlohmann::ordered_json::array()}};
    output_.print(
        fmt::format("{} points, {} directed edges, {} on disk; {} to choose, weights {}:{}\n",
                    points_, store.num_edges(), format_bytes(8 * points_ + 6 * store.num_edges()),
                    options_.num_chosen(points_), options_.weights[0], options_.weights[1]));
  }

  void run() {
    if (!options_.no_central) measure_central();
    if (options_.grid) measure_grid();
    else measure_arms();
    output_.publish(json_.dump(2) + "\n");
    output_.print(fmt::format("\n{0}/results.json has all of it, {0}/{1}.svg is a picture\n",
                              output_.folder().string(), options_.grid ? "grid" : "arms"));
  }

 private:
  void generate() {
    options_.store = output_.folder() / fmt::format("points-{}", options_.points);
    if (std::filesystem::exists(options_.store / "points.json")) return;
    output_.print(fmt::format("generating {} points ...\n", options_.points));
    generate_points(options_.store, {.points = options_.points});
  }

  void measure_central() {
    central_ = run_central(options_, output_.folder());
    output_.print(fmt::format(
        "one process, everything in memory: greedy {} ({:.2f} M points/s), loading {}, {} at "
        "most\n",
        format_seconds(central_->greedy_seconds),
        static_cast<double>(points_) / central_->greedy_seconds / 1e6,
        format_seconds(central_->load_seconds), format_bytes(central_->peak_bytes)));
    json_["central"] = {{"score", central_->score},
                        {"random_score", central_->random_score},
                        {"greedy_seconds", central_->greedy_seconds},
                        {"load_seconds", central_->load_seconds},
                        {"peak_bytes", central_->peak_bytes}};
  }

  std::string title() const {
    return fmt::format("{} of {} points chosen, weights {}:{}",
                       with_thousands(static_cast<double>(options_.num_chosen(points_))),
                       with_thousands(static_cast<double>(points_)), options_.weights[0],
                       options_.weights[1]);
  }

  void measure_grid() {
    const auto cells = run_grid(selection_case(options_), 750);
    output_.print(grid_text(cells, *central_));
    json_["grid"] = nlohmann::ordered_json::parse(grid_json(cells, *central_));
    draw_grid(cells, *central_, title()).write(output_.folder() / "grid.svg");
  }

  void measure_arms() {
    output_.print(fmt::format("\n{:>10} {:>7} {:>8} {:>10} {:>9} {:>12} {:>10} {:>8}  {}\n",
                              "partitions", "rounds", "workers", "f / point", "of gap", "visits/s",
                              "seconds", "peak", "digest"));
    std::vector<BenchArm> arms;
    if (central_)
      arms.push_back({"one process", static_cast<double>(points_) / central_->greedy_seconds,
                      static_cast<double>(central_->peak_bytes), 1});
    for (const std::uint32_t partitions : options_.partitions)
      for (const std::uint32_t rounds : options_.rounds)
        for (const std::uint32_t workers : options_.workers)
          arms.push_back(measure_arm({partitions, rounds, workers}));
    draw_arms(arms, title()).write(output_.folder() / "arms.svg");
  }

  BenchArm measure_arm(const SelectArm& arm) {
    const auto run = run_select(options_, arm, output_.folder());
    std::uint64_t peak = 0;
    for (const auto& use : run.at("workers"))
      peak = std::max(peak, use.at("peak_bytes").get<std::uint64_t>());
    const double seconds = run.at("seconds").get<double>();
    BenchArm measured{fmt::format("m = {}, r = {}, {} worker{}", arm.partitions, arm.rounds,
                                  arm.workers, arm.workers == 1 ? "" : "s"),
                      run.at("point_visits").get<double>() / seconds, static_cast<double>(peak)};
    if (central_) measured.gap_closed = gap_closed(run.at("score").get<std::int64_t>(), *central_);
    output_.print(fmt::format(
        "{:>10} {:>7} {:>8} {:>10.5f} {:>9} {:>12.0f} {:>10.2f} {:>8}  {}\n", arm.partitions,
        arm.rounds, arm.workers, run.at("score_per_point").get<double>(),
        measured.gap_closed ? fmt::format("{:.3f}", *measured.gap_closed) : "-",
        measured.visits_per_second, seconds, format_bytes(peak),
        run.at("digest").get<std::string>().substr(0, 12)));
    json_["arms"].push_back(run);
    return measured;
  }

  SelectBenchOptions options_;
  const BenchOutput& output_;
  std::uint64_t points_ = 0;  ///< Size of the ground set.
  std::optional<CentralResult> central_;
  nlohmann::ordered_json json_;
};

/// `weft bench select`.
class SelectProgram final : public BenchProgram {
 public:
  Description description() const override {
    return {.name = "select",
            .purpose =
                "Compare subset selection by memory-limited workers with greedy selection in one "
                "process.",
            .example = "weft bench select --points 100000",
            .folder = "runs/bench-select",
            .folder_holds = "points, results and scratch"};
  }

  void add_options(CLI::App& app) override {
    app.add_option("--points", options_.points, "Points to generate (reused by later runs)")
        ->capture_default_str();
    app.add_option("--store", options_.store, "Existing ground set to use instead")
        ->type_name("DIR");
    app.add_option("--percent", options_.percent, "Percentage of the points to choose")
        ->check(CLI::Range(0.001, 100.0))
        ->capture_default_str();
    app.add_option("--weights", options_.weights, "Weights of utility and similarity")
        ->delimiter(',')
        ->expected(2)
        ->capture_default_str();
    app.add_option("--partitions", options_.partitions, "Numbers of partitions to measure")
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--rounds", options_.rounds, "Numbers of rounds to measure")
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--workers", options_.workers, "Numbers of workers to measure")
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--memory", options_.memory, "Cap on each worker; 0: none")
        ->capture_default_str();
    app.add_option("--bounding", options_.bounding, "off, exact or uniform")->capture_default_str();
    app.add_option("--seed", options_.seed, "Seed of partitions and ties")->capture_default_str();
    app.add_flag("--grid", options_.grid,
                 "The paper's tables, in memory: m = 2..32, r = 1..32, adaptive and fixed");
    app.add_flag("--no-central", options_.no_central,
                 "Skip greedy in one process (if it does not fit into memory)");
    app.add_flag("--central-only", options_.central_only, "One process, as JSON")->group("");
  }

  std::optional<int> complete_options(const CLI::App& /*app*/) override {
    if (options_.central_only) {
      print_central(options_);
      return 0;
    }
    if (options_.grid && options_.no_central)
      throw_error(ErrorCode::kInvalidArgument,
                  "--grid compares with greedy in one process, so remove --no-central");
    return std::nullopt;
  }

  int measure(const BenchOutput& output) override {
    SelectBench(options_, output).run();
    return 0;
  }

 private:
  SelectBenchOptions options_;
};

}  // namespace

std::unique_ptr<BenchProgram> make_select_program() { return std::make_unique<SelectProgram>(); }

}  // namespace weft::apps
