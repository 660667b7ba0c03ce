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
#include "core/base/statistics.h"
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
  bool computes = false;
};

/// Step of one layout and arm, with computing such that all its communication alone takes `ratio`
/// of the time of its computing alone.
struct DuplexRow {
  std::string layout;
  double ratio = 0;
  Arm arm = Arm::kGraph;
  double computing = 0;      ///< Seconds of computing alone.
  double communication = 0;  ///< Seconds of communication alone, by playing the programs.
  StepCost step = {};
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

constexpr std::int64_t kLayers = 4;

/// `link`: bits per second of a host's link, each way. `speed`: FLOP/s of a device; 0: unknown.
ShardingModel model_of(const DuplexOptions& options, const std::string& layout, Arm arm,
                       std::uint64_t link, double speed) {
  const mesh::Duplex duplex = arm == Arm::kHalves  ? mesh::Duplex::kHalves
                              : arm == Arm::kCross ? mesh::Duplex::kCross
                                                   : mesh::Duplex::kOff;
  ShardingModel model =
      make_sharding_model({layout, options.devices, options.tokens_by_width, options.width, kLayers,
                           speed, options.microbatches, duplex},
                          link);
  model.conditions.orders_steps = arm == Arm::kOff || duplex != mesh::Duplex::kOff;
  if (arm == Arm::kSafe) model.layout.lowering = mesh::Lowering::kSafe;
  if (arm == Arm::kLate)
    model.layout.own_schedule = mesh::with_late_reductions(
        mesh::make_schedule(model.layout.schedule, 1, options.microbatches));
  return model;
}

mesh::TrainingPlan plan_of(const ShardingModel& model) {
  return mesh::make_training_plan(model.layout, model.graphs,
                                  mesh::predict_places(model.layout, model.hosts),
                                  model.conditions);
}

/// Returns the asked arms that are possible.
std::vector<Arm> arms_of(const DuplexOptions& options) {
  std::vector<Arm> arms;
  for (const auto& [arm, name] : kArms)
    if (std::ranges::find(options.arms, name) != options.arms.end() && is_possible(arm, options))
      arms.push_back(arm);
  return arms;
}

/// Adds what a plan says about a row whose step is measured.
void add_plan(DuplexRow& row, const mesh::TrainingPlan& plan, double speed) {
  row.expected =
      mesh::simulate(plan.schedule, mesh::plan_costs(plan, mesh::cost_model_seconds(speed)),
                     mesh::simulation_options_of(plan))
          .step_time;
  for (const mesh::Program& program : plan.train.programs)
    row.activations = std::max(row.activations, program.arena_bytes);
}

std::string name_of(const DuplexRow& row) {
  return fmt::format("{}, comm/comp {:g}, {}", row.layout, row.ratio, name_of(row.arm));
}

/// Rows of emulated devices.
class DuplexBench {
 public:
  DuplexBench(TestCluster& cluster, const DuplexOptions& options, std::uint64_t link,
              std::stop_token stop)
      : options_(options), link_(link), steps_(cluster, options.steps, std::move(stop)) {}

  std::vector<DuplexRow> run(const std::string& layout, double ratio) {
    const mesh::TrainingPlan graph = plan_of(model_of(options_, layout, Arm::kGraph, link_, 0));
    const double communication = forecast_seconds(graph, 0), computing = communication / ratio;
    const double speed = most_flops(graph) / computing;
    std::vector<DuplexRow> rows;
    for (const Arm arm : arms_of(options_)) {
      const ShardingModel model = model_of(options_, layout, arm, link_, speed);
      mesh::TrainingPlan plan = plan_of(model);
      DuplexRow row{layout, ratio, arm, computing, communication, steps_.measure(model, speed)};
      add_plan(row, plan, speed);
      const StepCost& first = rows.empty() ? row.step : rows.front().step;
      row.gain = first.seconds / row.step.seconds;
      row.played_gain = first.forecast / row.step.forecast;
      BenchOutput::report_progress(
          fmt::format("{}: {}", name_of(row), format_seconds(row.step.seconds)));
      drawn_.push_back({name_of(row), std::move(plan)});
      rows.push_back(std::move(row));
    }
    return rows;
  }

  /// Draws the lanes of all plans so far.
  Svg drawing() const { return draw_lanes(drawn_); }

 private:
  const DuplexOptions& options_;
  const std::uint64_t link_;
  EmulatedSteps steps_;
  std::vector<NamedPlan> drawn_;
};

/// Rows of CPUs that compute. Links get the rate at which communication alone takes `ratio` of the
/// time of computing alone. Arms take their steps in turns; a gain is the median of the rounds'.
class ComputingBench {
 public:
  ComputingBench(TestCluster& cluster, const DuplexOptions& options, std::stop_token stop)
      : cluster_(cluster), options_(options), stop_(std::move(stop)) {}

  std::vector<DuplexRow> run(const std::string& layout, double ratio) {
    const double computing = seconds_alone(layout);
    const mesh::TrainingPlan slow =
        plan_of(model_of(options_, layout, Arm::kGraph, kReferenceLink, 0));
    const double communication = computing * ratio;
    const auto link = static_cast<std::uint64_t>(static_cast<double>(kReferenceLink) *
                                                 forecast_seconds(slow, 0) / communication);
    limit_links(cluster_, num_hosts(), link);
    const double speed = most_flops(slow) / computing;
    StepsInTurns steps(cluster_);
    std::vector<DuplexRow> rows;
    for (const Arm arm : arms_of(options_)) {
      const ShardingModel model = model_of(options_, layout, arm, link, speed);
      const mesh::TrainingPlan plan = plan_of(model);
      DuplexRow& row = rows.emplace_back(DuplexRow{layout, ratio, arm, computing, communication});
      row.step.forecast = forecast_seconds(plan, speed);
      row.step.received = received_bytes(plan);
      add_plan(row, plan, speed);
      steps.add(name_of(arm), model);
    }
    steps.take_steps(stop_);
    std::vector<std::vector<double>> seconds(rows.size()), gains(rows.size());
    for (int round = 0; round < options_.steps; ++round) {
      const std::vector<double> taken = steps.take_steps(stop_);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        seconds[i].push_back(taken[i]);
        gains[i].push_back(taken.front() / taken[i]);
      }
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].step.seconds = median(seconds[i]);
      rows[i].gain = median(gains[i]);
      rows[i].played_gain = rows.front().step.forecast / rows[i].step.forecast;
      BenchOutput::report_progress(fmt::format("{}: {}, links of {:.3g} Mbit/s", name_of(rows[i]),
                                               format_seconds(rows[i].step.seconds),
                                               static_cast<double>(link) * 1e-6));
    }
    return rows;
  }

 private:
  static constexpr std::uint64_t kReferenceLink = 200'000'000, kFastLink = 20'000'000'000;

  int num_hosts() const { return options_.devices * static_cast<int>(arms_of(options_).size()); }
  /// Returns the median of a step over links that take no time.
  double seconds_alone(const std::string& layout) {
    limit_links(cluster_, num_hosts(), kFastLink);
    StepsInTurns steps(cluster_);
    steps.add("alone", model_of(options_, layout, Arm::kGraph, kFastLink, 0));
    steps.take_steps(stop_);
    std::vector<double> seconds;
    for (int i = 0; i < options_.steps; ++i) seconds.push_back(steps.take_steps(stop_).front());
    return median(std::move(seconds));
  }

  TestCluster& cluster_;
  const DuplexOptions& options_;
  const std::stop_token stop_;
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
    app.add_flag("--compute", options_.computes,
                 "Compute on this machine's CPUs; links get the rate that gives comm/comp");
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
      const int hosts =
          options_.devices * (options_.computes ? static_cast<int>(arms_of(options_).size()) : 1);
      const TestCluster::Options cluster = bench_cluster_options(
          description(), output, hosts, options_.loopback,
          "the links are not limited, so communication takes less time than comm/comp says");
      TestCluster processes(cluster);
      const bool shaped = limit_links(processes, hosts, link_);
      DuplexBench emulated(processes, options_, link_, stop);
      ComputingBench computing(processes, options_, stop);
      std::vector<DuplexRow> rows;
      for (const std::string& layout : options_.layouts) {
        for (const double ratio : options_.ratios) {
          for (DuplexRow& row :
               options_.computes ? computing.run(layout, ratio) : emulated.run(layout, ratio))
            rows.push_back(std::move(row));
          output.save(to_json(rows));
        }
      }
      output.print(table_of(rows));
      output.publish(to_json(rows));
      if (!options_.computes) emulated.drawing().write(output.folder() / "lanes.svg");
      const char* where = !shaped             ? "unlimited loopback"
                          : options_.computes ? "links by comm/comp"
                                              : options_.link.c_str();
      output.print(fmt::format(
          "\nA step of a GPT of 4 layers of width {}, microbatches: {} of {:g} tokens,\n{}, {}.\n"
          "gain: the first arm over this one. played: the same by playing the programs.\n"
          "overlap: hidden part of the shorter of computing and communication. memory: of\n"
          "activations. {}:\nresults.json has all of it{}\n",
          options_.width, options_.microbatches,
          options_.tokens_by_width * static_cast<double>(options_.width),
          options_.computes ? "CPUs" : "emulated devices", where, output.folder().string(),
          options_.computes ? "" : ", lanes.svg draws both lanes"));
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
