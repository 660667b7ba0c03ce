#include "apps/train/mesh_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "mesh/runtime/step_result.h"

namespace weft::apps {
namespace {

/// "front[0,1] on worker0".
DeviceTrace unnamed_trace(const mesh::TrainingPlan& plan, const mesh::Program& program) {
  const transfer::HostId host = plan.topology.host_of(program.device);
  return {.name = fmt::format("{} on {}", program.device_name, plan.hosts[host.value()])};
}

}  // namespace

MeshEngine::MeshEngine(const mesh::TrainingPlan& plan, PlanRunner& runner) : plan_(plan), runner_(runner) {
  for (const mesh::Program& program : plan.train.programs) traces_.push_back(unnamed_trace(plan, program));
}

mesh::StepRequest MeshEngine::request(const std::string& program) {
  mesh::StepRequest request;
  request.program = program;
  request.run = ++runs_;
  return request;
}

StepOutcome MeshEngine::step(const StepOrder& order) {
  mesh::StepRequest wanted = request("train");
  wanted.step = static_cast<std::uint64_t>(order.step);
  wanted.trace = order.trace;
  wanted.optimizer = {.learning_rate = order.optimizer.learning_rate,
                      .beta1 = order.optimizer.beta1,
                      .beta2 = order.optimizer.beta2,
                      .epsilon = order.optimizer.epsilon,
                      .weight_decay = order.optimizer.weight_decay,
                      .clip_norm = order.clip_norm,
                      .number = order.step};
  std::vector<mesh::StepReport> reports = runner_.run(wanted);
  const mesh::StepResult result = mesh::combine(reports);
  if (order.trace)
    for (std::size_t i = 0; i < reports.size() && i < traces_.size(); ++i) {
      traces_[i].clock_offset_ns = runner_.clock_offset_ns(i);
      std::move(reports[i].trace.begin(), reports[i].trace.end(), std::back_inserter(traces_[i].events));
    }
  const double devices = static_cast<double>(std::max<std::size_t>(1, reports.size()));
  return {.loss = result.loss,
          .grad_norm = result.grad_norm,
          .transfer_seconds = result.transfer_seconds / devices,
          .exposed_transfer_seconds = result.exposed_transfer_seconds / devices,
          .resharded_bytes = result.reshard_bytes};
}

double MeshEngine::validate(std::int64_t batches) {
  double sum = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    mesh::StepRequest wanted = request("validate");
    wanted.step = static_cast<std::uint64_t>(batch);
    wanted.split = mesh::Split::kValidation;
    sum += mesh::combine(runner_.run(wanted)).loss;
  }
  return sum / static_cast<double>(batches);
}

std::vector<ParameterState> MeshEngine::gather() {
  runner_.run(request("gather"));
  const auto copy = [&](const std::string& name) {
    const std::span<const float> block = runner_.driver_block(name);
    return std::vector<float>(block.begin(), block.end());
  };
  std::vector<ParameterState> states;
  for (const Parameter& parameter : plan_.partition.graph.parameters()) {
    const Value& value = plan_.partition.graph.value(parameter.value);
    states.push_back({.name = value.name,
                      .shape = value.type.shape,
                      .values = copy("parameter/" + value.name),
                      .first_moment = copy("first_moment/" + value.name),
                      .second_moment = copy("second_moment/" + value.name)});
  }
  return states;
}

void MeshEngine::restore(const std::vector<ParameterState>& states, std::int64_t /*steps_done*/) {
  const auto parameters = plan_.partition.graph.parameters();
  bool fits = states.size() == parameters.size();
  for (std::size_t i = 0; fits && i < states.size(); ++i) {
    const Value& value = plan_.partition.graph.value(parameters[i].value);
    fits = states[i].name == value.name && states[i].shape == value.type.shape;
  }
  if (!fits) throw_error(ErrorCode::kIncompatible, "the checkpoint's parameters are not those of this model");
  for (const ParameterState& state : states) {
    std::ranges::copy(state.values, runner_.driver_block("parameter/" + state.name).begin());
    std::ranges::copy(state.first_moment, runner_.driver_block("first_moment/" + state.name).begin());
    std::ranges::copy(state.second_moment, runner_.driver_block("second_moment/" + state.name).begin());
  }
  runner_.run(request("scatter"));
}

std::vector<DeviceTrace> MeshEngine::take_traces() {
  std::vector<DeviceTrace> taken = traces_;
  for (DeviceTrace& trace : traces_) trace.events.clear();
  return taken;
}

}  // namespace weft::apps
