// Checks forecasts of training steps on arms that the model was not fitted to. Fits the only
// constant of mesh/program that is not measured (TrafficOptions::device_weight_ratio) on half of
// the arms of a `weft bench pipeline --all-arms`, and reports the errors of the other half.
//
//   forecast_fit RESULTS.json [--microbatches N]
//
// RESULTS.json is the output of the benchmark's --json. Uses each workload's name and microbatches,
// and each arm's schedule, resharding, transfers and median step. Skips `auto`, as the file does
// not name the schedule that it found. Runs no training: forecasts only need the models, which are
// emulated.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/bench/pipeline/pipeline_model.h"
#include "mesh/costs/program_seconds.h"
#include "mesh/plan/training_plan.h"
#include "mesh/program/op_time_model.h"
#include "mesh/program/simulate_programs.h"
#include "mesh/program/traffic.h"
#include "mesh/schedule/named_schedules.h"
#include "transfer/reshard/reshard_algorithm.h"

namespace weft {
namespace {

/// Candidates for the constant.
constexpr double kShares[] = {1, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5};

/// Measured arm, and its forecasts by candidate.
struct MeasuredArm {
  std::string name;
  double seconds = 0;
  std::vector<double> forecasts;
  double error(std::size_t share) const { return seconds / forecasts[share] - 1; }
};

mesh::TrainingPlan plan_of(const apps::PipelineModel& model, const nlohmann::json& arm) {
  mesh::ParallelConfig layout = model.layout;
  const auto transfers = arm.at("transfers").get<std::string>();
  layout.lowering = transfers == "blocking" ? mesh::Lowering::kSafe : mesh::Lowering::kLanes;
  layout.payload = transfers == "signals only" ? mesh::Payload::kSignals : mesh::Payload::kTensors;
  layout.resharding = transfer::parse_strategy(arm.at("resharding").get<std::string>());
  mesh::PlanConditions conditions;
  for (const auto& [host, devices] : hosts_of(model))
    conditions.links[host] = model.link_rate_bits / 8 * apps::kLinkGoodput;
  const int meshes = layout.meshes.size();
  const int chunks = static_cast<int>(layout.mesh_of_stage().size()) / meshes;
  layout.own_schedule = mesh::make_schedule(
      {arm.at("schedule").get<std::string>(), meshes, layout.microbatches, chunks, 0});
  return mesh::make_training_plan(layout, model.graphs,
                                  mesh::predict_places(layout, hosts_of(model)), conditions);
}

std::vector<MeasuredArm> arms_of(const nlohmann::json& workload) {
  apps::PipelineModelRequest request;
  request.name = workload.at("name").get<std::string>();
  request.microbatches = workload.at("microbatches").get<int>();
  const apps::PipelineModel model = make_pipeline_model(request);
  std::vector<MeasuredArm> arms;
  for (const nlohmann::json& arm : workload.at("arms")) {
    if (arm.at("schedule") == "auto") continue;
    const mesh::TrainingPlan plan = plan_of(model, arm);
    const mesh::InstructionSeconds seconds = program_seconds(plan, mesh::cost_model_seconds(0));
    MeasuredArm& measured = arms.emplace_back();
    measured.name =
        fmt::format("{}, {}, {}, {}", request.name, arm.at("resharding").get<std::string>(),
                    arm.at("transfers").get<std::string>(), arm.at("schedule").get<std::string>());
    measured.seconds = arm.at("step_seconds").at("median").get<double>();
    for (const double share : kShares) {
      const mesh::Traffic traffic =
          traffic_of(plan.train.programs, plan.topology, plan.network, {share});
      measured.forecasts.push_back(simulate_programs(plan.train.programs, seconds, traffic).step);
    }
  }
  return arms;
}

struct Errors {
  double mean = 0;  ///< Mean of the errors' absolute values.
  double worst = 0;
  int beyond = 0;  ///< Arms whose error exceeds 5 %.
};

Errors errors_of(const std::vector<const MeasuredArm*>& arms, std::size_t share) {
  Errors errors;
  for (const MeasuredArm* arm : arms) {
    const double size = std::abs(arm->error(share));
    errors.mean += size / arms.size();
    errors.worst = std::max(errors.worst, size);
    if (size > 0.05) ++errors.beyond;
  }
  return errors;
}

void report(const std::vector<MeasuredArm>& arms) {
  // Hold out every second arm, so that each model, schedule and strategy is in both halves.
  std::vector<const MeasuredArm*> fitted, held_out;
  for (std::size_t i = 0; i < arms.size(); ++i)
    (i % 2 == 0 ? fitted : held_out).push_back(&arms[i]);
  fmt::print("{} arms to fit, {} held out; sizes of errors: mean, worst, arms beyond 5 %\n\n",
             fitted.size(), held_out.size());
  fmt::print("  share of the next device   fitted on              held out\n");
  std::size_t best = 0;
  for (std::size_t s = 0; s < std::size(kShares); ++s) {
    const Errors a = errors_of(fitted, s), b = errors_of(held_out, s);
    if (a.mean < errors_of(fitted, best).mean) best = s;
    fmt::print("  {:<25}  {:.2f} %, {:4.1f} %, {:2}    {:.2f} %, {:4.1f} %, {:2}\n", kShares[s],
               100 * a.mean, 100 * a.worst, a.beyond, 100 * b.mean, 100 * b.worst, b.beyond);
  }
  fmt::print("\nthe fit is {}; held-out arms beyond 5 % with it:\n", kShares[best]);
  for (const MeasuredArm* arm : held_out) {
    if (std::abs(arm->error(best)) > 0.05)
      fmt::print("  {}: {:+.1f} %\n", arm->name, 100 * arm->error(best));
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  CLI::App app(
      "Fits the simulation's one free constant on half of the measured arms, and reports the other "
      "half.",
      "forecast_fit");
  std::string path;
  std::size_t most = 0;
  app.add_option("results", path, "What `weft bench pipeline --all-arms --json` wrote")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--arms", most, "Only the first so many; 0: all");
  CLI11_PARSE(app, argc, argv);
  std::ifstream file(path);
  std::vector<weft::MeasuredArm> arms;
  const nlohmann::json document = nlohmann::json::parse(file);
  for (const nlohmann::json& workload : document.at("workloads")) {
    if (most > 0 && arms.size() >= most) break;
    std::ranges::move(weft::arms_of(workload), std::back_inserter(arms));
  }
  if (arms.size() < 2) {
    fmt::print(stderr, "{} has fewer than two arms of named schedules\n", path);
    return 1;
  }
  weft::report(arms);
}
