#include "core/evaluate/one_device_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/graph/fill_parameter.h"

namespace weft {
namespace {

std::vector<ValueId> gradient_values(const std::vector<Gradient>& gradients) {
  std::vector<ValueId> values;
  values.reserve(gradients.size());
  for (const Gradient& gradient : gradients) values.push_back(gradient.gradient);
  return values;
}

}  // namespace

OneDeviceTrainer::OneDeviceTrainer(Device& device, TrainingGraph graph, std::uint64_t seed)
    : loss_(graph.loss),
      gradients_(std::move(graph.gradients)),
      evaluation_(device, std::move(graph.graph), {loss_}, gradient_values(gradients_)) {
  place_states(device);
  const Graph& g = evaluation_.graph();
  std::vector<float> values;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Parameter& parameter = g.parameters()[i];
    const Value& value = g.value(parameter.value);
    values.resize(states_[i].value.size());
    fill_parameter(value.name, value.type.shape, Region::whole(value.type.shape),
                   parameter.initializer, seed, values);
    evaluation_.stream().copy(std::as_bytes(std::span(values)),
                              std::as_writable_bytes(states_[i].value));
    if (value.type.dtype != DType::kF32) evaluation_.set_parameter(parameter.value, values);
    evaluation_.stream().synchronize();
  }
}

void OneDeviceTrainer::place_states(Device& device) {
  const Graph& graph = evaluation_.graph();
  const auto in_graph = [&](const Parameter& p) {
    return graph.value(p.value).type.dtype == DType::kF32;
  };
  std::size_t floats = 0;
  for (const Parameter& p : graph.parameters())
    floats +=
        (in_graph(p) ? 2 : 3) * static_cast<std::size_t>(graph.value(p.value).type.elements());
  memory_ = device.allocate(floats * sizeof(float));
  evaluation_.stream().fill_zero({memory_.data(), memory_.size()});
  float* at = reinterpret_cast<float*>(memory_.data());
  for (const Parameter& p : graph.parameters()) {
    const std::size_t size = graph.value(p.value).type.elements();
    State& state = states_.emplace_back();
    state.first_moment = {std::exchange(at, at + size), size};
    state.second_moment = {std::exchange(at, at + size), size};
    state.value = in_graph(p) ? evaluation_.tensor(p.value).as<float>()
                              : std::span(std::exchange(at, at + size), size);
  }
}

void OneDeviceTrainer::resume_at_step(std::int64_t steps) {
  steps_ = steps;
  round_working_copies();
}

void OneDeviceTrainer::round_working_copies() {
  const auto parameters = evaluation_.graph().parameters();
  std::vector<float> values;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (evaluation_.tensor(parameters[i].value).type.dtype == DType::kF32) continue;
    values.resize(states_[i].value.size());
    evaluation_.stream().copy(std::as_bytes(states_[i].value),
                              std::as_writable_bytes(std::span(values)));
    evaluation_.stream().synchronize();
    evaluation_.set_parameter(parameters[i].value, values);
  }
}

TrainingReport OneDeviceTrainer::step(int microbatches, const Feed& feed, AdamW optimizer,
                                      double clip_norm) {
  Stream& stream = evaluation_.stream();
  const std::size_t parameters = states_.size();
  const std::size_t bytes = parameters * sizeof(double) + microbatches * sizeof(float);
  if (results_.size() < bytes) results_ = evaluation_.device().allocate_staging(bytes);
  const std::span squares(reinterpret_cast<double*>(results_.data()), parameters);
  const std::span losses(reinterpret_cast<float*>(results_.data() + squares.size_bytes()),
                         microbatches);
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    feed(microbatch, evaluation_);
    evaluation_.run(microbatch == 0 ? OutputMode::kWrite : OutputMode::kAccumulate);
    const auto loss = evaluation_.tensor(loss_).as<float>();
    stream.copy(std::as_bytes(loss), std::as_writable_bytes(losses.subspan(microbatch, 1)));
  }
  const std::vector<ValueId> gradients = add_terms();
  std::vector<std::span<const float>> tensors;
  for (const ValueId gradient : gradients)
    tensors.emplace_back(evaluation_.tensor(gradient).as<float>());
  stream.sums_of_squares(tensors, squares);
  stream.synchronize();
  TrainingReport report;
  report.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  report.gradient_norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  optimizer.step = ++steps_;
  if (!std::isfinite(report.gradient_norm)) {
    const auto bad =
        std::ranges::find_if(squares, [](double square) { return !std::isfinite(square); });
    report.first_nonfinite_parameter = static_cast<std::size_t>(bad - squares.begin());
    return report;
  }
  optimizer.gradient_scale = clip_factor(report.gradient_norm, clip_norm);
  update(optimizer, gradients);
  return report;
}

std::vector<ValueId> OneDeviceTrainer::add_terms() {
  std::vector<ValueId> wholes;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (i > 0 && gradients_[i].parameter == gradients_[i - 1].parameter) {
      evaluation_.stream().add(evaluation_.tensor(gradients_[i].gradient).as<float>(),
                               evaluation_.tensor(wholes.back()).as<float>());
    } else {
      wholes.push_back(gradients_[i].gradient);
    }
  }
  return wholes;
}

void OneDeviceTrainer::update(const AdamW& optimizer, const std::vector<ValueId>& gradients) {
  const auto parameters = evaluation_.graph().parameters();
  std::vector<AdamWParameter> updated;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorRef working = evaluation_.tensor(parameters[i].value);
    updated.push_back({.gradient = evaluation_.tensor(gradients[i]).as<float>(),
                       .value = states_[i].value,
                       .first_moment = states_[i].first_moment,
                       .second_moment = states_[i].second_moment,
                       .decay = parameters[i].decay,
                       .working = working.type.dtype == DType::kF32 ? TensorRef{} : working});
  }
  evaluation_.stream().adamw(optimizer, updated);
  if (evaluation_.device().is_host_memory()) evaluation_.stream().synchronize();
}

}  // namespace weft
