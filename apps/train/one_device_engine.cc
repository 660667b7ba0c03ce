#include "apps/train/one_device_engine.h"

#include <algorithm>

#include "core/base/error.h"

namespace weft::apps {
namespace {

/// What the optimizer keeps, where the host can use it.
std::vector<float> to_host(OneDeviceTrainer& trainer, std::span<const float> kept) {
  std::vector<float> values(kept.size());
  Stream& stream = trainer.evaluation().stream();
  stream.copy(std::as_bytes(kept), std::as_writable_bytes(std::span(values)));
  stream.synchronize();
  return values;
}

}  // namespace

OneDeviceEngine::OneDeviceEngine(Device& device, const Clock& clock, TrainingGraph graph, int microbatches, std::uint64_t seed,
                                 Feed feed)
    : device_(device),
      clock_(clock),
      graph_(std::move(graph)),
      microbatches_(microbatches),
      feed_(std::move(feed)),
      trainer_(device, graph_, seed),
      trace_{.name = "device on this host"} {}

StepOutcome OneDeviceEngine::step(const StepOrder& order) {
  const std::int64_t begun = clock_.now().time_since_epoch().count();
  const TrainingReport report = trainer_.step(
      microbatches_, [&](int microbatch, Evaluation& evaluation) { feed_(false, order.step, microbatch, evaluation); },
      order.optimizer, order.clip_norm);
  if (order.trace)
    trace_.events.push_back(
        {.name = "the whole step", .start_ns = begun, .end_ns = clock_.now().time_since_epoch().count(), .step = order.step});
  StepOutcome outcome{.loss = report.loss, .grad_norm = report.gradient_norm};
  if (report.first_not_finite)
    outcome.not_finite = graph_.graph.value(graph_.graph.parameters()[*report.first_not_finite].value).name;
  return outcome;
}

double OneDeviceEngine::validate(std::int64_t batches) {
  Evaluation evaluation(device_, graph_.graph, {graph_.loss});
  const auto parameters = graph_.graph.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    evaluation.set_parameter(parameters[i].value, to_host(trainer_, trainer_.value(i)));
  double sum = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch)
    for (int microbatch = 0; microbatch < microbatches_; ++microbatch) {
      feed_(true, batch, microbatch, evaluation);
      evaluation.run();
      sum += evaluation.read<float>(graph_.loss)[0];
    }
  return sum / static_cast<double>(batches);
}

std::vector<ParameterState> OneDeviceEngine::gather() {
  std::vector<ParameterState> result;
  const auto parameters = graph_.graph.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value& value = graph_.graph.value(parameters[i].value);
    result.push_back({.name = value.name,
                      .shape = value.type.shape,
                      .values = to_host(trainer_, trainer_.value(i)),
                      .first_moment = to_host(trainer_, trainer_.first_moment(i)),
                      .second_moment = to_host(trainer_, trainer_.second_moment(i))});
  }
  return result;
}

void OneDeviceEngine::restore(const std::vector<ParameterState>& states, std::int64_t steps_done) {
  const auto parameters = graph_.graph.parameters();
  bool fits = states.size() == parameters.size();
  for (std::size_t i = 0; fits && i < states.size(); ++i) {
    const Value& value = graph_.graph.value(parameters[i].value);
    fits = states[i].name == value.name && states[i].shape == value.type.shape;
  }
  if (!fits) throw_error(ErrorCode::kIncompatible, "the checkpoint's parameters are not those of this model");
  Stream& stream = trainer_.evaluation().stream();
  const auto to_device = [&](const std::vector<float>& values, std::span<float> kept) {
    stream.copy(std::as_bytes(std::span(values)), std::as_writable_bytes(kept));
  };
  for (std::size_t i = 0; i < states.size(); ++i) {
    to_device(states[i].values, trainer_.value(i));
    to_device(states[i].first_moment, trainer_.first_moment(i));
    to_device(states[i].second_moment, trainer_.second_moment(i));
  }
  stream.synchronize();
  trainer_.resume_after(steps_done);
}

std::vector<DeviceTrace> OneDeviceEngine::take_traces() {
  DeviceTrace taken = trace_;
  trace_.events.clear();
  return {taken};
}

}  // namespace weft::apps
