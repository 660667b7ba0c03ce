#include "apps/bench/sharding/duplex_program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/sharding/emulated_steps.h"
#include "apps/bench/sharding/sharding_case.h"
#include "apps/bench/test_cluster.h"
#include "core/base/units.h"
#include "mesh/schedule/late_reductions.h"
#include "mesh/schedule/named_schedules.h"

namespace weft::apps {
namespace {

struct DuplexOptions : EmulatedOptions {
  std::vector<double> ratios = {0.2, 0.5, 1};
  std::vector<std::string> layouts = {"data", "fsdp", "1d"};
  int devices = 8;
  int microbatches = 1;
  double tokens_by_width = 4;
};

/// Step times of one layout, with computing such that all its communication alone takes `ratio` of
/// the time of its computing alone.
struct DuplexRow {
  std::string layout;
  double ratio = 0;
  double computing = 0;      ///< Seconds of computing alone.
  double communication = 0;  ///< Seconds of communication alone, by playing the programs.
  StepCost late;             ///< Gradients are reduced after the last backward.
  StepCost early;            ///< Each bucket of gradients is reduced as soon as it is complete.
  StepCost lists;            ///< Reductions as in `early`; each action is a list of steps.
};

class DuplexBench {
 public:
  DuplexBench(TestCluster& cluster, const DuplexOptions& options, std::uint64_t link,
              std::stop_token stop)
      : options_(options), link_(link), steps_(cluster, options.steps, std::move(stop)) {}

  DuplexRow run(const std::string& layout, double ratio) {
    ShardingModel early = make_sharding_model({layout, options_.devices, options_.tokens_by_width,
                                               options_.width, kLayers, 0, options_.microbatches},
                                              link_);
    const ShardingModel lists = early;
    early.conditions.orders_steps = false;
    ShardingModel late = early;
    late.layout.own_schedule = mesh::with_late_reductions(
        mesh::make_schedule(late.layout.schedule, 1, options_.microbatches));
    const mesh::TrainingPlan plan =
        mesh::make_training_plan(early.layout, early.graphs,
                                 mesh::predict_places(early.layout, early.hosts), early.conditions);
    DuplexRow row{layout, ratio, 0, forecast_seconds(plan, 0), {}, {}, {}};
    row.computing = row.communication / ratio;
    const double speed = most_flops(plan) / row.computing;
    row.late = steps_.measure(late, speed);
    row.early = steps_.measure(early, speed);
    row.lists = steps_.measure(lists, speed);
    BenchOutput::report_progress(fmt::format("{}, comm/comp {:g}: late {}, early {}, lists {}",
                                             layout, ratio, format_seconds(row.late.seconds),
                                             format_seconds(row.early.seconds),
                                             format_seconds(row.lists.seconds)));
    return row;
  }

 private:
  static constexpr std::int64_t kLayers = 4;
  const DuplexOptions& options_;
  const std::uint64_t link_;
  EmulatedSteps steps_;
};

std::string table_of(const std::vector<DuplexRow>& rows) {
  std::string text = fmt::format("\n{:<11} {:>9} {:>9} {:>9} {:>8} {:>4} {:>6} {:>8} {:>4} {:>6}\n",
                                 "layout", "comm/comp", "computing", "late", "early", "gain",
                                 "played", "lists", "gain", "played");
  for (const DuplexRow& row : rows)
    text += fmt::format(
        "{:<11} {:>9g} {:>9} {:>9} {:>8} {:>4.2f} {:>6.2f} {:>8} {:>4.2f} {:>6.2f}\n", row.layout,
        row.ratio, format_seconds(row.computing), format_seconds(row.late.seconds),
        format_seconds(row.early.seconds), row.late.seconds / row.early.seconds,
        row.late.forecast / row.early.forecast, format_seconds(row.lists.seconds),
        row.early.seconds / row.lists.seconds, row.early.forecast / row.lists.forecast);
  return text;
}

nlohmann::json json_of(const StepCost& step) {
  return {{"seconds", step.seconds},
          {"forecast_seconds", step.forecast},
          {"received_bytes", step.received},
          {"interface_over_programs", step.interface_ratio}};
}

std::string to_json(const std::vector<DuplexRow>& rows) {
  nlohmann::json document = nlohmann::json::array();
  for (const DuplexRow& row : rows)
    document.push_back({{"layout", row.layout},
                        {"communication_by_computing", row.ratio},
                        {"computing_seconds", row.computing},
                        {"communication_seconds", row.communication},
                        {"late", json_of(row.late)},
                        {"early", json_of(row.early)},
                        {"lists", json_of(row.lists)}});
  return document.dump(1) + "\n";
}

/// `weft bench duplex`.
class DuplexProgram final : public BenchProgram {
 public:
  Description description() const override {
    return {.name = "duplex",
            .purpose =
                "Measure how much of a mesh's communication hides behind its computation.\n"
                "A GPT on emulated devices, on hosts with shaped links.\n"
                "late: gradients are reduced after the last backward.\n"
                "early: each as soon as it is complete.\n"
                "lists: so too, and each action is a list of steps.",
            .example = "weft bench duplex --quick",
            .folder = "runs/bench-duplex",
            .folder_holds = "results and logs"};
  }
  // The device processes are those of `weft bench pipeline`, which registers their actors.

  void add_options(CLI::App& app) override {
    app.add_option("--ratios", options_.ratios,
                   "All communication alone over all computing alone; sets the devices' speed")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::PositiveNumber)
        ->type_name("R,...");
    app.add_option("--layouts", options_.layouts, "Layouts of the model's tensors")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::IsMember({"data", "fsdp", "1d", "1d-sequence", "2d", "3d"}))
        ->type_name("NAME,...");
    app.add_option("--devices", options_.devices, "Devices, each on a host of its own")
        ->capture_default_str()
        ->check(CLI::Range(2, 64));
    app.add_option("--microbatches", options_.microbatches, "Microbatches of a step")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    app.add_option("--tokens", options_.tokens_by_width,
                   "M/H: tokens of a microbatch over the width")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    options_.add_to(app, "One ratio, one step, a narrow model");
  }

  std::optional<int> complete_options(const CLI::App& app) override {
    if (options_.quick && app.count("--ratios") == 0) options_.ratios = {0.5};
    if (options_.quick && app.count("--width") == 0) options_.width = 256;
    link_ = options_.complete(app);
    return std::nullopt;
  }

  int measure(const BenchOutput& output) override {
    return run_until_signal([&](const std::stop_token& stop) {
      const TestCluster::Options cluster = bench_cluster_options(
          description(), output, options_.devices, options_.loopback,
          "the links are not limited, so communication takes less time than comm/comp says");
      TestCluster processes(cluster);
      const bool shaped = limit_links(processes, options_.devices, link_);
      DuplexBench bench(processes, options_, link_, stop);
      std::vector<DuplexRow> rows;
      for (const std::string& layout : options_.layouts) {
        for (const double ratio : options_.ratios) {
          rows.push_back(bench.run(layout, ratio));
          output.save(to_json(rows));
        }
      }
      output.print(table_of(rows));
      output.publish(to_json(rows));
      output.print(fmt::format(
          "\nA step of a GPT of 4 layers of width {}, microbatches: {} of {:g} tokens, "
          "{}.\ngain: the arm to the left over this one. played: the same by playing the programs."
          "\n{}: results.json has all of it\n",
          options_.width, options_.microbatches,
          options_.tokens_by_width * static_cast<double>(options_.width),
          shaped ? "links of " + options_.link : "unlimited loopback", output.folder().string()));
      return 0;
    });
  }

 private:
  DuplexOptions options_;
  std::uint64_t link_ = 0;  ///< Bits per second of a host's link, each way.
};

}  // namespace

std::unique_ptr<BenchProgram> make_duplex_program() { return std::make_unique<DuplexProgram>(); }

}  // namespace weft::apps
