#include "apps/bench/sharding/emulated_steps.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "apps/bench/pipeline/pipeline_batches.h"
#include "core/base/error.h"
#include "core/base/statistics.h"

namespace weft::apps {

void EmulatedOptions::add_to(CLI::App& app, const std::string& quick_purpose) {
  app.add_option("--width", width, "H, the width of the model")
      ->capture_default_str()
      ->check(CLI::Range(64, 8192));
  app.add_option("--link", link, "Rate of each host's link, each way")
      ->capture_default_str()
      ->type_name("RATE");
  app.add_option("--steps", steps, "Measured steps of each case")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--quick", quick, quick_purpose);
  app.add_flag("--loopback", loopback, "Use loopback without limited links");
}

std::uint64_t EmulatedOptions::complete(const CLI::App& app) {
  if (quick && app.count("--steps") == 0) steps = 1;
  return parse_link_rate("--link", link);
}

bool limit_links(const TestCluster& cluster, int hosts, std::uint64_t bits_per_second) {
  if (cluster.test_hosts() == nullptr) return false;
  for (int host = 0; host < hosts; ++host) cluster.test_hosts()->limit(host, 0, bits_per_second);
  return true;
}

StepCost EmulatedSteps::measure(const ShardingModel& model, double flops_per_second) {
  mesh::PipelineExecutorOptions options;
  options.device.kind = DeviceKind::kEmulated;
  options.device.flops_per_second = flops_per_second;
  options.replan_for_network = false;
  options.conditions = model.conditions;
  mesh::PipelineExecutor group(cluster_.cluster(), model.layout, model.graphs,
                               encode(model.batches), options);
  StepCost result;
  result.forecast = forecast_seconds(group.plan(), flops_per_second);
  result.received = received_bytes(group.plan());
  take_step(group);
  std::vector<double> seconds;
  const double before = interface_bytes();
  for (int i = 0; i < steps_; ++i) seconds.push_back(take_step(group));
  const double mean = (interface_bytes() - before) / steps_;
  result.seconds = median(std::move(seconds));
  // The first program runs on host0.
  result.interface_ratio = mean / received_bytes(group.plan().train.programs.front());
  return result;
}

namespace {

double run_step(mesh::PipelineExecutor& group, std::uint64_t step, const std::stop_token& stop) {
  if (stop.stop_requested()) throw_error(ErrorCode::kCancelled, "interrupted");
  mesh::StepRequest request;
  request.program = mesh::kTrainProgram;
  request.step = step;
  request.optimizer.number = static_cast<std::int64_t>(step);
  request.optimizer.learning_rate = 1e-4;
  request.optimizer.clip_norm = 1;
  return group.run(request).seconds;
}

}  // namespace

double EmulatedSteps::take_step(mesh::PipelineExecutor& group) {
  return run_step(group, ++step_, stop_);
}

void StepsInTurns::add(const std::string& name, ShardingModel model) {
  mesh::PipelineExecutorOptions options;
  options.replan_for_network = false;
  options.conditions = model.conditions;
  mesh::MeshConfig& mesh = model.layout.meshes.front();
  mesh.name = name;
  options.conditions.links.clear();
  for (std::string& host : mesh.hosts) {
    const std::string own = TestCluster::host_name(hosts_++);
    if (const auto link = model.conditions.links.find(host); link != model.conditions.links.end())
      options.conditions.links[own] = link->second;
    host = own;
  }
  groups_.push_back(std::make_unique<mesh::PipelineExecutor>(
      cluster_.cluster(), model.layout, model.graphs, encode(model.batches), options));
}

std::vector<double> StepsInTurns::take_steps(const std::stop_token& stop) {
  ++step_;
  std::vector<double> seconds;
  for (const auto& group : groups_) seconds.push_back(run_step(*group, step_, stop));
  return seconds;
}

double EmulatedSteps::interface_bytes() const {
  return cluster_.test_hosts() == nullptr
             ? 0
             : static_cast<double>(cluster_.test_hosts()->bytes_received(0, 0));
}

}  // namespace weft::apps
