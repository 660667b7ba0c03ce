#include "apps/train/mesh_engine.h"

#include <algorithm>

#include "core/base/error.h"

namespace weft::apps {
StepOutcome MeshEngine::step(const StepOrder& order) {
  mesh::StepRequest request;
  request.program = "train";
  request.step = static_cast<std::uint64_t>(order.step);
  request.trace = order.trace;
  request.optimizer = {.learning_rate = order.optimizer.learning_rate,
                       .beta1 = order.optimizer.beta1,
                       .beta2 = order.optimizer.beta2,
                       .epsilon = order.optimizer.epsilon,
                       .weight_decay = order.optimizer.weight_decay,
                       .clip_norm = order.clip_norm,
                       .number = order.step};
  const mesh::StepResult result = runner_.run(request);
  const auto name_of = [&](std::uint32_t parameter) {
    const Graph& graph = runner_.plan().partition.graph;
    return graph.value(graph.parameters()[parameter].value).name;
  };
  const double devices = std::max(1, runner_.plan().num_devices());
  return {.loss = result.loss,
          .grad_norm = result.grad_norm,
          .not_finite = result.first_not_finite ? name_of(*result.first_not_finite) : "",
          .transfer_seconds = result.transfer_seconds / devices,
          .exposed_transfer_seconds = result.exposed_transfer_seconds / devices,
          .resharded_bytes = result.reshard_bytes,
          .note = result.note};
}

double MeshEngine::validate(std::int64_t batches) {
  double sum = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    mesh::StepRequest request;
    request.program = "validate";
    request.step = static_cast<std::uint64_t>(batch);
    request.split = mesh::Split::kValidation;
    sum += runner_.run(request).loss;
  }
  return sum / static_cast<double>(batches);
}

std::vector<ParameterState> MeshEngine::gather() {
  runner_.gather();
  const auto copy = [&](const std::string& name) {
    const std::span<const float> block = runner_.driver_block(name);
    return std::vector<float>(block.begin(), block.end());
  };
  std::vector<ParameterState> states;
  for (const Parameter& parameter : runner_.plan().partition.graph.parameters()) {
    const Value& value = runner_.plan().partition.graph.value(parameter.value);
    states.push_back({.name = value.name,
                      .shape = value.type.shape,
                      .values = copy("parameter/" + value.name),
                      .first_moment = copy("first_moment/" + value.name),
                      .second_moment = copy("second_moment/" + value.name)});
  }
  return states;
}

void MeshEngine::restore(const std::vector<ParameterState>& states, std::int64_t /*steps_done*/) {
  const auto parameters = runner_.plan().partition.graph.parameters();
  bool fits = states.size() == parameters.size();
  for (std::size_t i = 0; fits && i < states.size(); ++i) {
    const Value& value = runner_.plan().partition.graph.value(parameters[i].value);
    fits = states[i].name == value.name && states[i].shape == value.type.shape;
  }
  if (!fits) throw_error(ErrorCode::kIncompatible, "the checkpoint's parameters are not those of this model");
  for (const ParameterState& state : states) {
    std::ranges::copy(state.values, runner_.driver_block("parameter/" + state.name).begin());
    std::ranges::copy(state.first_moment, runner_.driver_block("first_moment/" + state.name).begin());
    std::ranges::copy(state.second_moment, runner_.driver_block("second_moment/" + state.name).begin());
  }
  runner_.scatter();
}

}  // namespace weft::apps
