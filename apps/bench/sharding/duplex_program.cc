#include "apps/bench/sharding/duplex_program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/bench/sharding/emulated_steps.h"
#include "apps/bench/sharding/lanes_drawing.h"
#include "apps/bench/sharding/sharding_case.h"
#include "apps/bench/test_cluster.h"
#include "core/base/units.h"
#include "mesh/costs/plan_costs.h"
#include "mesh/schedule/late_reductions.h"
#include "mesh/schedule/named_schedules.h"

namespace weft::apps {
namespace {

/// Ways to run a step. The first of a table is its baseline.
enum class Arm : std::uint8_t { kSafe, kLate, kGraph, kOff, kHalves, kCross };
constexpr std::pair<Arm, const char*> kArms[] = {{Arm::kSafe, "safe"},     {Arm::kLate, "late"},
                                                 {Arm::kGraph, "graph"},   {Arm::kOff, "off"},
                                                 {Arm::kHalves, "halves"}, {Arm::kCross, "cross"}};

const char* name_of(Arm arm) {
  return std::ranges::find(kArms, arm, &std::pair<Arm, const char*>::first)->second;
}

struct DuplexOptions : EmulatedOptions {
  std::vector<double> ratios = {0.5, 1, 2};
  std::vector<std::string> layouts = {"data", "fsdp", "1d"};
  std::vector<std::string> arms = {"graph", "off", "halves", "cross"};
  int devices = 8;
  int microbatches = 1;
  double tokens_by_width = 4;
};

/// Step of one layout and arm, with computing such that all its communication alone takes `ratio`
/// of the time of its computing alone.
struct DuplexRow {
  std::string layout;
  double ratio = 0;
  Arm arm = Arm::kGraph;
  double computing = 0;      ///< Seconds of computing alone.
  double communication = 0;  ///< Seconds of communication alone, by playing the programs.
  StepCost step;
  double expected = 0;            ///< Seconds by the costs of a plan, without playing its programs.
  std::uint64_t activations = 0;  ///< Bytes of the fullest device.
  double gain = 0, played_gain = 0;  ///< The first arm of its layout and ratio over this one.

  /// Returns the part of the shorter of computing and communication that the longer one hides.
  double overlap() const {
    return (computing + communication - step.seconds) / std::min(computing, communication);
  }
};

/// Returns whether the arm is possible: a pair of a forward and a backward needs two microbatches.
bool is_possible(Arm arm, const DuplexOptions& options) {
  return arm != Arm::kCross || options.microbatches > 1;
}

class DuplexBench {
 public:
  DuplexBench(TestCluster& cluster, const DuplexOptions& options, std::uint64_t link,
              std::stop_token stop)
      : options_(options), link_(link), steps_(cluster, options.steps, std::move(stop)) {}

  std::vector<DuplexRow> run(const std::string& layout, double ratio) {
    const mesh::TrainingPlan graph = plan_of(model_of(layout, Arm::kGraph, 0));
    const double communication = forecast_seconds(graph, 0), computing = communication / ratio;
    const double speed = most_flops(graph) / computing;
    std::vector<DuplexRow> rows;
    for (const auto& [arm, name] : kArms) {
      if (std::ranges::find(options_.arms, name) == options_.arms.end() ||
          !is_possible(arm, options_))
        continue;
      const ShardingModel model = model_of(layout, arm, speed);
      const mesh::TrainingPlan plan = plan_of(model);
      DuplexRow row{layout, ratio, arm, computing, communication, steps_.measure(model, speed)};
      row.expected =
          mesh::simulate(plan.schedule, mesh::plan_costs(plan, mesh::cost_model_seconds(speed)),
                         mesh::simulation_options_of(plan))
              .step_time;
      for (const mesh::Program& program : plan.train.programs)
        row.activations = std::max(row.activations, program.arena_bytes);
      const StepCost& first = rows.empty() ? row.step : rows.front().step;
      row.gain = first.seconds / row.step.seconds;
      row.played_gain = first.forecast / row.step.forecast;
      BenchOutput::report_progress(fmt::format("{}, comm/comp {:g}, {}: {}", layout, ratio, name,
                                               format_seconds(row.step.seconds)));
      rows.push_back(std::move(row));
      drawn_.push_back({fmt::format("{}, comm/comp {:g}, {}", layout, ratio, name), plan});
    }
    return rows;
  }

  /// Draws the lanes of all plans so far.
  Svg drawing() const { return draw_lanes(drawn_); }

 private:
  static constexpr std::int64_t kLayers = 4;

  ShardingModel model_of(const std::string& layout, Arm arm, double speed) const {
    const mesh::Duplex duplex = arm == Arm::kHalves  ? mesh::Duplex::kHalves
                                : arm == Arm::kCross ? mesh::Duplex::kCross
                                                     : mesh::Duplex::kOff;
    ShardingModel model =
        make_sharding_model({layout, options_.devices, options_.tokens_by_width, options_.width,
                             kLayers, speed, options_.microbatches, duplex},
                            link_);
    model.conditions.orders_steps = arm == Arm::kOff || duplex != mesh::Duplex::kOff;
    if (arm == Arm::kSafe) model.layout.lowering = mesh::Lowering::kSafe;
    if (arm == Arm::kLate)
      model.layout.own_schedule = mesh::with_late_reductions(
          mesh::make_schedule(model.layout.schedule, 1, options_.microbatches));
    return model;
  }
  static mesh::TrainingPlan plan_of(const ShardingModel& model) {
    return mesh::make_training_plan(model.layout, model.graphs,
                                    mesh::predict_places(model.layout, model.hosts),
                                    model.conditions);
  }

  const DuplexOptions& options_;
  const std::uint64_t link_;
  EmulatedSteps steps_;
  std::vector<NamedPlan> drawn_;
};

std::string table_of(const std::vector<DuplexRow>& rows) {
  std::string text = fmt::format("\n{:<11} {:>9} {:<6} {:>8} {:>5} {:>6} {:>7} {:>8}\n", "layout",
                                 "comm/comp", "arm", "step", "gain", "played", "overlap", "memory");
  std::string before;
  for (const DuplexRow& row : rows) {
    const std::string group = fmt::format("{:<11} {:>9g}", row.layout, row.ratio);
    text += fmt::format("{:<21} {:<6} {:>8} {:>5.2f} {:>6.2f} {:>7.2f} {:>8}\n",
                        group == before ? "" : group, name_of(row.arm),
                        format_seconds(row.step.seconds), row.gain, row.played_gain, row.overlap(),
                        format_bytes(row.activations));
    before = group;
  }
  return text;
}

std::string to_json(const std::vector<DuplexRow>& rows) {
  nlohmann::json document = nlohmann::json::array();
  for (const DuplexRow& row : rows)
    document.push_back({{"layout", row.layout},
                        {"communication_by_computing", row.ratio},
                        {"arm", name_of(row.arm)},
                        {"computing_seconds", row.computing},
                        {"communication_seconds", row.communication},
                        {"seconds", row.step.seconds},
                        {"played_seconds", row.step.forecast},
                        {"expected_seconds", row.expected},
                        {"gain", row.gain},
                        {"played_gain", row.played_gain},
                        {"overlap", row.overlap()},
                        {"activations_bytes", row.activations},
                        {"received_bytes", row.step.received},
                        {"interface_over_programs", row.step.interface_ratio}});
  return document.dump(1) + "\n";
}

/// `weft bench duplex`.
class DuplexProgram final : public BenchProgram {
 public:
  Description description() const override {
    return {.name = "duplex",
            .purpose =
                "Measure how much of a mesh's communication hides behind its computation.\n"
                "A GPT on emulated devices, on hosts with shaped links. Arms:\n"
                "safe: every collective blocks\n"
                "late: gradients are reduced after the last backward\n"
                "graph: each as soon as it is complete; steps in the order of the model\n"
                "off: so too, and each action is a list of steps\n"
                "halves, cross: so too, and pairs of actions run interleaved (pipeline.duplex)",
            .example = "weft bench duplex --quick",
            .folder = "runs/bench-duplex",
            .folder_holds = "results, a picture of both lanes, and logs"};
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
    app.add_option("--arms", options_.arms, "Arms; the first one in the list above is the baseline")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::IsMember({"safe", "late", "graph", "off", "halves", "cross"}))
        ->type_name("NAME,...");
    app.add_option("--devices", options_.devices, "Devices, each on a host of its own")
        ->capture_default_str()
        ->check(CLI::Range(2, 64));
    app.add_option("--microbatches", options_.microbatches,
                   "Microbatches of a step; cross needs several")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    app.add_option("--tokens", options_.tokens_by_width,
                   "M/H: tokens of a microbatch over the width")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    options_.add_to(app, "One ratio, one step, a narrow model");
  }

  std::optional<int> complete_options(const CLI::App& app) override {
    if (options_.quick && app.count("--ratios") == 0) options_.ratios = {1};
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
          for (DuplexRow& row : bench.run(layout, ratio)) rows.push_back(std::move(row));
          output.save(to_json(rows));
        }
      }
      output.print(table_of(rows));
      output.publish(to_json(rows));
      bench.drawing().write(output.folder() / "lanes.svg");
      output.print(fmt::format(
          "\nA step of a GPT of 4 layers of width {}, microbatches: {} of {:g} tokens,\n{}.\n"
          "gain: the first arm over this one. played: the same by playing the programs.\n"
          "overlap: hidden part of the shorter of computing and communication. memory: of\n"
          "activations. {}:\nresults.json has all of it, lanes.svg draws both lanes\n",
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
