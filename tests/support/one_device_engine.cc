#include "tests/support/one_device_engine.h"

#include <utility>

namespace weft::test {
namespace {

/// Copies optimizer state to host memory.
std::vector<float> to_host(OneDeviceTrainer& trainer, std::span<const float> kept) {
  std::vector<float> values(kept.size());
  Stream& stream = trainer.evaluation().stream();
  stream.copy(std::as_bytes(kept), std::as_writable_bytes(std::span(values)));
  stream.synchronize();
  return values;
}

}  // namespace

OneDeviceEngine::OneDeviceEngine(Device& device, const Clock& clock, TrainingGraph graph,
                                 int microbatches, std::uint64_t seed, Feed feed)
    : device_(device),
      clock_(clock),
      graph_(std::move(graph)),
      microbatches_(microbatches),
      feed_(std::move(feed)),
      trainer_(device, graph_, seed),
      trace_{.name = "device on this host"} {}

mesh::StepResult OneDeviceEngine::run(mesh::StepRequest request) {
  const std::int64_t step = request.step;
  mesh::StepResult result;
  if (request.split == mesh::Split::kValidation) {
    result.loss = validate(step);
    return result;
  }
  const std::int64_t begun = clock_.now().time_since_epoch().count();
  const mesh::OptimizerStep& optimizer = request.optimizer;
  const TrainingReport report = trainer_.step(
      microbatches_,
      [&](int microbatch, Evaluation& evaluation) { feed_(false, step, microbatch, evaluation); },
      {.learning_rate = optimizer.learning_rate,
       .beta1 = optimizer.beta1,
       .beta2 = optimizer.beta2,
       .epsilon = optimizer.epsilon,
       .weight_decay = optimizer.weight_decay},
      optimizer.clip_norm);
  if (request.trace)
    trace_.events.push_back({.name = "the whole step",
                             .start_ns = begun,
                             .end_ns = clock_.now().time_since_epoch().count(),
                             .step = step});
  result.loss = report.loss;
  result.grad_norm = report.gradient_norm;
  result.first_nonfinite_parameter = report.first_nonfinite_parameter;
  return result;
}

double OneDeviceEngine::validate(std::int64_t batch) {
  Evaluation evaluation(device_, graph_.graph, {graph_.loss});
  const auto parameters = graph_.graph.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    evaluation.set_parameter(parameters[i].value, to_host(trainer_, trainer_.value(i)));
  double sum = 0;
  for (int microbatch = 0; microbatch < microbatches_; ++microbatch) {
    feed_(true, batch, microbatch, evaluation);
    evaluation.run();
    sum += evaluation.read<float>(graph_.loss)[0];
  }
  return sum;
}

void OneDeviceEngine::copy_state() {
  copies_.clear();
  for (std::size_t i = 0; i < graph_.graph.parameters().size(); ++i)
    for (const std::span<const float> kept :
         {trainer_.value(i), trainer_.first_moment(i), trainer_.second_moment(i)})
      copies_.push_back(to_host(trainer_, kept));
}

void OneDeviceEngine::gather(const ReadStateSlice& take, const std::stop_token&) {
  for (std::size_t i = 0; i < copies_.size(); ++i)
    take({i / 3, static_cast<StateBlock>(i % 3), 0}, copies_[i]);
}

void OneDeviceEngine::restore(const WriteStateSlice& give, std::int64_t steps_done) {
  Stream& stream = trainer_.evaluation().stream();
  std::vector<float> values;
  const auto to_device = [&](const StateSlice& piece, std::span<float> kept) {
    values.resize(kept.size());
    give(piece, values);
    stream.copy(std::as_bytes(std::span(values)), std::as_writable_bytes(kept));
    stream.synchronize();
  };
  for (std::size_t i = 0; i < graph_.graph.parameters().size(); ++i) {
    to_device({i, StateBlock::kValue, 0}, trainer_.value(i));
    to_device({i, StateBlock::kFirstMoment, 0}, trainer_.first_moment(i));
    to_device({i, StateBlock::kSecondMoment, 0}, trainer_.second_moment(i));
  }
  trainer_.resume_at_step(steps_done);
}

std::vector<DeviceTrace> OneDeviceEngine::take_traces() {
  DeviceTrace taken = trace_;
  trace_.events.clear();
  return {taken};
}

}  // namespace weft::test
