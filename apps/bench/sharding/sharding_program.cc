#include "apps/bench/sharding/sharding_program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/sharding/emulated_steps.h"
#include "apps/bench/sharding/sharding_case.h"
#include "apps/bench/test_cluster.h"
#include "core/base/error.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

struct ShardingOptions : EmulatedOptions {
  std::vector<double> ratios = {0.5, 1, 2, 4, 8};
};

constexpr int kDevices = 8;
/// Numbers of layers of the two measured models. Half their difference is the cost of one layer,
/// without the costs that do not depend on the number of layers.
constexpr int kFewLayers = 2, kManyLayers = 4;

/// Cost of one layer under a layout: half the difference of kManyLayers and kFewLayers.
struct LayerCost {
  double seconds = 0, forecast = 0, received = 0, interface_ratio = 0;
};

/// Table row: 1d against 3d at one M / H.
struct Row {
  int devices = kDevices;
  double tokens_by_width = 0;
  double flops_per_second = 0;
  LayerCost flat, square, cube;  ///< `square` is simulated only, for 64 devices.
};

class ShardingBench {
 public:
  ShardingBench(TestCluster& cluster, const ShardingOptions& options, std::uint64_t link,
                std::stop_token stop)
      : options_(options), link_(link), steps_(cluster, options.steps, std::move(stop)) {}

  Row run(double m, double flops_per_second) {
    Row row{kDevices, m, flops_per_second, {}, {}, {}};
    row.flat = layer({"1d", kDevices, m, options_.width, 0, flops_per_second});
    row.cube = layer({"3d", kDevices, m, options_.width, 0, flops_per_second});
    return row;
  }

 private:
  LayerCost layer(ShardingCase c) {
    c.layers = kFewLayers;
    const StepCost few = step(c);
    c.layers = kManyLayers;
    const StepCost many = step(c);
    const double n = kManyLayers - kFewLayers;
    return {(many.seconds - few.seconds) / n, (many.forecast - few.forecast) / n,
            (many.received - few.received) / n, many.interface_ratio};
  }

  StepCost step(const ShardingCase& c) {
    StepCost result = steps_.measure(make_sharding_model(c, link_), c.flops_per_second);
    BenchOutput::report_progress(
        fmt::format("{}, M/H {:g}, {} layers: {}, by its programs {}", c.layout, c.tokens_by_width,
                    c.layers, format_seconds(result.seconds), format_seconds(result.forecast)));
    return result;
  }

  const ShardingOptions& options_;
  const std::uint64_t link_;
  EmulatedSteps steps_;
};

/// Simulates one layer by playing the programs of a step. Needs no hosts.
LayerCost simulated(ShardingCase c, std::uint64_t link) {
  const auto step = [&] {
    const ShardingModel model = make_sharding_model(c, link);
    const mesh::TrainingPlan plan =
        mesh::make_training_plan(model.layout, model.graphs,
                                 mesh::predict_places(model.layout, model.hosts), model.conditions);
    return std::pair(forecast_seconds(plan, c.flops_per_second), received_bytes(plan));
  };
  c.layers = 1;
  const auto [few, few_bytes] = step();
  c.layers = 2;
  const auto [many, many_bytes] = step();
  return {0, many - few, many_bytes - few_bytes, 0};
}

std::string table_of(const std::vector<Row>& rows, bool shaped) {
  std::string text = fmt::format(
      "\n{:>3} {:>5} {:>10} {:>10} {:>8} {:>7} {:>9} {:>11} {:>11} {:>10}\n", "P", "M/H", "1d",
      "3d", "1d/3d", "law", "forecast", "1d receives", "3d receives", "interface");
  for (const Row& row : rows) {
    const int q = row.devices == 8 ? 2 : row.devices == 27 ? 3 : 4;
    const bool measured = row.flat.seconds > 0;
    const double flat = measured ? row.flat.seconds : row.flat.forecast;
    const double cube = measured ? row.cube.seconds : row.cube.forecast;
    text += fmt::format(
        "{:>3} {:>5g} {:>10} {:>10} {:>8.2f} {:>7} {:>9.2f} {:>11} {:>11} {:>10}{}\n", row.devices,
        row.tokens_by_width, format_seconds(flat), format_seconds(cube), flat / cube,
        row.flops_per_second > 0
            ? "-"
            : fmt::format("{:.2f}", closed_form_speedup_3d(q, row.tokens_by_width)),
        row.flat.forecast / row.cube.forecast,
        format_bytes(static_cast<std::uint64_t>(row.flat.received)),
        format_bytes(static_cast<std::uint64_t>(row.cube.received)),
        measured && shaped ? fmt::format("{:.3f}", row.cube.interface_ratio) : "-",
        row.flops_per_second > 0 ? "  with compute"
        : measured               ? ""
                                 : "  simulated");
    if (row.square.forecast > 0)
      text += fmt::format("{:>3} {:>5g} {:>10} 2d, simulated: 2d/3d {:.2f}\n", row.devices,
                          row.tokens_by_width, format_seconds(row.square.forecast),
                          row.square.forecast / cube);
  }
  return text;
}

nlohmann::json json_of(const LayerCost& layer) {
  return {{"seconds", layer.seconds},
          {"forecast_seconds", layer.forecast},
          {"received_bytes", layer.received},
          {"interface_over_programs", layer.interface_ratio}};
}

std::string to_json(const std::vector<Row>& rows) {
  nlohmann::json document = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json one{{"devices", row.devices},
                       {"tokens_by_width", row.tokens_by_width},
                       {"flops_per_second", row.flops_per_second},
                       {"1d", json_of(row.flat)},
                       {"3d", json_of(row.cube)}};
    if (row.square.forecast > 0) one["2d"] = json_of(row.square);
    document.push_back(std::move(one));
  }
  return document.dump(1) + "\n";
}

/// Returns the FLOP/s per device at which computing a layer under 3d takes as long as its
/// transfers.
double balanced_flops(const Row& row, const ShardingOptions& options, std::uint64_t link) {
  const double h = static_cast<double>(options.width), tokens = row.tokens_by_width * h;
  const double flops = 6 * tokens * 12 * h * h / kDevices;
  return flops / (row.cube.received * 8 / static_cast<double>(link));
}

/// Simulates one layer on 27 and 64 devices.
std::vector<Row> simulate_larger_meshes(const ShardingOptions& options, std::uint64_t link) {
  std::vector<Row> rows;
  const std::span ratios(options.ratios);
  for (const int q : {3, 4}) {
    for (const double m : options.quick ? ratios.first(1) : ratios) {
      const int devices = q * q * q;
      const std::int64_t width = q == 3 ? 27 * 18 : 512;
      Row row{devices, m, 0, {}, {}, {}};
      row.flat = simulated({"1d", devices, m, width, 1, 0}, link);
      if (q == 4) row.square = simulated({"2d", devices, m, width, 1, 0}, link);
      row.cube = simulated({"3d", devices, m, width, 1, 0}, link);
      rows.push_back(row);
    }
  }
  return rows;
}

/// `weft bench sharding`.
class ShardingProgram final : public BenchProgram {
 public:
  Description description() const override {
    return {.name = "sharding",
            .purpose =
                "Measure a GPT layer under layouts of tensor parallelism on hosts with shaped "
                "links, and compare with the closed form of their bytes.",
            .example = "weft bench sharding --quick",
            .folder = "runs/bench-sharding",
            .folder_holds = "results and logs"};
  }
  // The device processes are those of `weft bench pipeline`, which registers their actors.

  void add_options(CLI::App& app) override {
    app.add_option("--ratios", options_.ratios, "M/H: tokens of a microbatch over the width")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::PositiveNumber)
        ->type_name("M,...");
    options_.add_to(app, "Two ratios, one step; simulates larger meshes at the first ratio only");
  }

  std::optional<int> complete_options(const CLI::App& app) override {
    if (options_.quick && app.count("--ratios") == 0) options_.ratios = {0.5, 2};
    link_ = options_.complete(app);
    return std::nullopt;
  }

  int measure(const BenchOutput& output) override {
    return run_until_signal([&](const std::stop_token& stop) {
      const TestCluster::Options cluster =
          bench_cluster_options(description(), output, kDevices, options_.loopback,
                                "the links are not limited, so ratios say little");
      const bool shaped = !cluster.hosts_tool.empty();
      std::vector<Row> rows = run_on_hosts(cluster, shaped, stop);
      const std::vector<Row> larger = simulate_larger_meshes(options_, link_);
      rows.insert(rows.end(), larger.begin(), larger.end());
      output.print(table_of(rows, shaped));
      output.publish(to_json(rows));
      output.print(fmt::format(
          "\n1d, 3d: a layer of a GPT of width {}, forward and backward, one microbatch; devices "
          "take no time. law: (q^2+q+1) m/(4m+3).\n{}: results.json has all of it\n",
          options_.width, output.folder().string()));
      return 0;
    });
  }

 private:
  std::vector<Row> run_on_hosts(const TestCluster::Options& cluster, bool shaped,
                                const std::stop_token& stop) const {
    TestCluster processes(cluster);
    limit_links(processes, kDevices, link_);
    ShardingBench bench(processes, options_, shaped ? link_ : 0, stop);
    std::vector<Row> rows;
    for (const double m : options_.ratios) rows.push_back(bench.run(m, 0));
    if (!options_.quick && shaped) {
      const auto four = std::ranges::find(rows, 4.0, &Row::tokens_by_width);
      if (four != rows.end()) rows.push_back(bench.run(4, balanced_flops(*four, options_, link_)));
    }
    return rows;
  }

  ShardingOptions options_;
  std::uint64_t link_ = 0;  ///< Bits per second of a host's link, each way.
};

}  // namespace

std::unique_ptr<BenchProgram> make_sharding_program() {
  return std::make_unique<ShardingProgram>();
}

}  // namespace weft::apps
