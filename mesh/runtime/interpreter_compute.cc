// Compute work of the interpreter: ops, one by one or as recorded segments, and the optimizer's
// step.
#include <algorithm>
#include <cmath>
#include <variant>

#include "mesh/runtime/internal/device_queue.h"
#include "mesh/runtime/interpreter.h"

namespace weft::mesh {

bool Interpreter::queue_segment() {
  const CaptureSegment* const segment = graphs_.beginning_at(next_);
  if (segment == nullptr) return false;
  graphs_.queue(*segment, resources_.stream, [&] {
    for (std::size_t i = segment->begin; i < segment->end; ++i) {
      std::visit([&](const auto& instruction) { execute(instruction); }, program_.instructions[i]);
    }
  });
  next_ = segment->end;
  return true;
}

bool Interpreter::execute(const Run& run) {
  // The vectors are thread_local to keep their memory between calls.
  thread_local std::vector<ConstTensorRef> inputs;
  thread_local std::vector<TensorRef> outputs;
  thread_local std::vector<OutputMode> modes;
  inputs.clear();
  outputs.clear();
  for (const std::uint32_t buffer : run.inputs) inputs.push_back(tensors_[buffer]);
  for (const std::uint32_t buffer : run.outputs) outputs.push_back(tensors_[buffer]);
  modes.assign(outputs.size(), OutputMode::kWrite);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if ((run.accumulate >> i & 1) != 0) modes[i] = OutputMode::kAccumulate;
  }
  resources_.stream.run(program_.ops[run.op], inputs, outputs, modes);
  return true;
}

bool Interpreter::execute(const Accumulate& accumulate) {
  const TensorRef& from = tensors_[accumulate.source];
  const TensorRef& to = tensors_[accumulate.destination];
  if (accumulate.first) {
    resources_.stream.copy(bytes(from), bytes(to));
  } else {
    resources_.stream.add(from.as<float>(), to.as<float>());
  }
  return true;
}

bool Interpreter::execute(const Norm& norm) {
  std::vector<std::span<const float>> gradients;
  std::vector<std::uint32_t> parameters;
  for (const ProgramParameter& parameter : program_.parameters) {
    if (!parameter.counts_in_norm) continue;
    gradients.emplace_back(tensors_[parameter.gradient].as<float>());
    parameters.push_back(parameter.index);
  }
  const auto squares = device_->sums_of_squares(gradients);
  if (!squares) return false;
  const auto row = tensors_[norm.destination].as<double>();
  std::fill(row.begin(), row.end(), 0.0);
  for (std::size_t i = 0; i < squares->size(); ++i) row[parameters[i]] = (*squares)[i];
  return true;
}

bool Interpreter::execute(const Update& update) {
  // Sums by parameter, then by device. This order does not depend on how the model is cut into
  // stages.
  const TensorRef& norms = tensors_[update.norms];
  const std::size_t devices = norms.type.shape[0], parameters = norms.type.shape[1];
  const auto squares = norms.as<double>();
  double sum = 0;
  for (std::size_t p = 0; p < parameters; ++p) {
    double of_parameter = 0;
    for (std::size_t d = 0; d < devices; ++d) of_parameter += squares[d * parameters + p];
    if (!first_not_finite_ && !std::isfinite(of_parameter))
      first_not_finite_ = static_cast<std::uint32_t>(p);
    sum += of_parameter;
  }
  grad_norm_ = std::sqrt(sum);
  // All devices read the same table, so all skip the update or none does. Skipping leaves values,
  // moments and working copies unchanged.
  if (!std::isfinite(grad_norm_)) return true;
  const OptimizerStep& optimizer = request_.optimizer;
  AdamW step;
  step.learning_rate = optimizer.learning_rate;
  step.beta1 = optimizer.beta1;
  step.beta2 = optimizer.beta2;
  step.epsilon = optimizer.epsilon;
  step.step = optimizer.number;
  step.weight_decay = optimizer.weight_decay;
  step.gradient_scale = clip_factor(grad_norm_, optimizer.clip_norm);
  std::vector<AdamWParameter> parameters_to_update;
  for (const ProgramParameter& parameter : program_.parameters) {
    parameters_to_update.push_back(
        {.gradient = tensors_[parameter.gradient].as<float>(),
         .value = tensors_[parameter.value].as<float>(),
         .first_moment = tensors_[parameter.first_moment].as<float>(),
         .second_moment = tensors_[parameter.second_moment].as<float>(),
         .decay = parameter.decay,
         .working = parameter.working_copy < 0 ? TensorRef{} : tensors_[parameter.working_copy]});
  }
  resources_.stream.adamw(step, parameters_to_update);
  return true;
}

}  // namespace weft::mesh
