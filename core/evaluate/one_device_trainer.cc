#include "core/evaluate/one_device_trainer.h"

#include <cmath>
#include <numeric>

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
      evaluation_(device, std::move(graph.graph), {loss_}, gradient_values(gradients_)),
      moments_(device.allocate(2 * sizeof(float) * static_cast<std::size_t>(evaluation_.graph().num_parameter_elements()))) {
  evaluation_.fill_parameters(seed);
  evaluation_.stream().fill_zero({moments_.data(), moments_.size()});
}

TrainingReport OneDeviceTrainer::step(int microbatches, const Feed& feed, AdamW optimizer, double clip_norm) {
  TrainingReport report;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    feed(microbatch, evaluation_);
    evaluation_.run(microbatch == 0 ? OutputMode::kWrite : OutputMode::kAccumulate);
    report.loss += evaluation_.data<float>(loss_)[0];
  }
  const std::vector<ValueId> gradients = add_terms();
  std::vector<std::span<const float>> tensors;
  for (const ValueId gradient : gradients) tensors.emplace_back(evaluation_.data<float>(gradient));
  std::vector<double> squares(tensors.size());
  evaluation_.stream().sums_of_squares(tensors, squares);
  evaluation_.stream().synchronize();
  report.gradient_norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  optimizer.gradient_scale = clip_factor(report.gradient_norm, clip_norm);
  optimizer.step = ++steps_;
  update(optimizer, gradients);
  return report;
}

std::span<float> OneDeviceTrainer::first_moment(std::size_t parameter) const {
  const Graph& graph = evaluation_.graph();
  float* moments = reinterpret_cast<float*>(moments_.data());
  for (std::size_t i = 0; i < parameter; ++i) moments += 2 * graph.value(graph.parameters()[i].value).type.elements();
  return {moments, static_cast<std::size_t>(graph.value(graph.parameters()[parameter].value).type.elements())};
}

std::span<float> OneDeviceTrainer::second_moment(std::size_t parameter) const {
  const std::span<float> first = first_moment(parameter);
  return {first.data() + first.size(), first.size()};
}

std::vector<ValueId> OneDeviceTrainer::add_terms() {
  std::vector<ValueId> wholes;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (i > 0 && gradients_[i].parameter == gradients_[i - 1].parameter) {
      evaluation_.stream().add(evaluation_.data<float>(gradients_[i].gradient), evaluation_.data<float>(wholes.back()));
    } else {
      wholes.push_back(gradients_[i].gradient);
    }
  }
  return wholes;
}

void OneDeviceTrainer::update(const AdamW& optimizer, const std::vector<ValueId>& gradients) {
  float* moments = reinterpret_cast<float*>(moments_.data());
  const auto parameters = evaluation_.graph().parameters();
  std::vector<OptimizedParameter> updated;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::span<float> values = evaluation_.data<float>(parameters[i].value);
    updated.push_back({.gradient = evaluation_.data<float>(gradients[i]),
                       .value = values,
                       .first_moment = {moments, values.size()},
                       .second_moment = {moments + values.size(), values.size()},
                       .decay = parameters[i].decay});
    moments += 2 * values.size();
  }
  evaluation_.stream().adamw(optimizer, updated);
  evaluation_.stream().synchronize();
}

}  // namespace weft
