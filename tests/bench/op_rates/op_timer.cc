#include "tests/bench/op_rates/op_timer.h"

#include <algorithm>
#include <utility>

#include "tests/bench/op_rates/seconds_per_run.h"
#include "tests/bench/training_step/step_device.h"

namespace weft::test {
namespace {

/// Alignment of tensors, that of a cache line and of the widest loads.
constexpr std::size_t kAlignment = 256;

std::size_t aligned_bytes(const TensorType& type) {
  return (type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_data(const StepOp& op, std::size_t input) {
  return input < op.data.size() && !op.data[input].empty() && op.inputs[input].dtype == DType::kI32;
}

/// Returns the bytes of one copy of an op's tensors, without data inputs.
std::size_t bytes_of_copy(const StepOp& op) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    bytes += is_data(op, i) ? 0 : aligned_bytes(op.inputs[i]);
  for (const TensorType& output : op.outputs) bytes += aligned_bytes(output);
  return std::max(bytes, kAlignment);
}

std::size_t num_copies(const StepOp& op, std::size_t cache) {
  return std::clamp<std::size_t>((2 * cache + bytes_of_copy(op) - 1) / bytes_of_copy(op), 1,
                                 OpTimer::kMaxCopies);
}

/// Returns whether Stream::record_work() accepts the call.
bool is_recordable(const StepOp& op) {
  return op.call == StepOp::Call::kRun || op.call == StepOp::Call::kCopy;
}

/// See StepOp::outputs for their order.
std::vector<AdamWParameter> adamw_parameters(const std::vector<ConstTensorRef>& gradients,
                                             const std::vector<TensorRef>& outputs) {
  std::vector<AdamWParameter> parameters;
  auto output = outputs.begin();
  for (const ConstTensorRef& gradient : gradients) {
    AdamWParameter& parameter = parameters.emplace_back();
    parameter.gradient = gradient.as<float>();
    parameter.value = (output++)->as<float>();
    parameter.first_moment = (output++)->as<float>();
    parameter.second_moment = (output++)->as<float>();
    if (output != outputs.end() && output->type.dtype == DType::kBF16)
      parameter.working = *output++;
  }
  return parameters;
}

}  // namespace

OpTimer::OpTimer(Device& device, const Clock& clock, const StepModel& model,
                 std::span<const StepOp> ops)
    : device_(device), clock_(clock), stream_(device.create_stream()) {
  const std::vector<std::vector<std::byte>> contents = step_inputs(model, 1, 0);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    DeviceMemory& memory = data_[model.graph.value(model.inputs[i]).name];
    memory = device.allocate(contents[i].size());
    stream_->copy(contents[i], {memory.data(), memory.size()});
  }
  stream_->synchronize();
  std::size_t largest = 0, parameters = 0;
  for (const StepOp& op : ops) {
    largest = std::max(largest, num_copies(op, cache_bytes(device)) * bytes_of_copy(op));
    parameters = std::max(parameters, op.inputs.size());
  }
  memory_ = device.allocate(largest);
  squares_ = device.allocate_staging(parameters * sizeof(double));
}

std::vector<OpTimer::Copy> OpTimer::place_copies(const StepOp& op) {
  std::vector<Copy> copies(num_copies(op, cache_bytes(device_)));
  std::byte* at = memory_.data();
  const auto place = [&](const TensorType& type) {
    return TensorRef{type, std::exchange(at, at + aligned_bytes(type))};
  };
  for (Copy& copy : copies) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      copy.inputs.push_back(is_data(op, i) ? TensorRef{op.inputs[i], data_.at(op.data[i]).data()}
                                           : place(op.inputs[i]));
    }
    for (const TensorType& output : op.outputs) copy.outputs.push_back(place(output));
  }
  // Earlier ops wrote results there, which need not be finite.
  fill_random(*stream_, {memory_.data(), at}, DType::kBF16);
  return copies;
}

void OpTimer::queue(const StepOp& op, const Copy& copy) {
  const auto bytes = [](const auto& tensor) { return std::span(tensor.data, tensor.type.bytes()); };
  switch (op.call) {
    case StepOp::Call::kRun: return stream_->run(op.op, copy.inputs, copy.outputs);
    case StepOp::Call::kAdd:
      return stream_->add(copy.inputs[0].as<float>(), copy.outputs[0].as<float>());
    case StepOp::Call::kCopy: return stream_->copy(bytes(copy.inputs[0]), bytes(copy.outputs[0]));
    case StepOp::Call::kSumsOfSquares: {
      std::vector<std::span<const float>> tensors;
      for (const ConstTensorRef& input : copy.inputs) tensors.push_back(input.as<float>());
      return stream_->sums_of_squares(tensors,
                                      {reinterpret_cast<double*>(squares_.data()), tensors.size()});
    }
    case StepOp::Call::kAdamW:
      return stream_->adamw({.learning_rate = 1e-4, .weight_decay = 0.1},
                            adamw_parameters(copy.inputs, copy.outputs));
  }
}

double OpTimer::seconds(const StepOp& op, double budget) {
  const std::vector<Copy> copies = place_copies(op);
  std::size_t next = 0;
  const auto queue_next = [&] { queue(op, copies[next++ % copies.size()]); };
  // Makes the one-time preparations of the op.
  queue_next();
  stream_->synchronize();
  std::unique_ptr<Recording> rotation;
  if (!device_.is_host_memory() && is_recordable(op)) {
    rotation = stream_->record_work([&] {
      for (const Copy& copy : copies) queue(op, copy);
    });
    stream_->synchronize();
  }
  const auto run_and_wait = [&](std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (rotation != nullptr) stream_->replay(*rotation);
      else queue_next();
    }
    stream_->synchronize();
  };
  const double seconds = seconds_per_run(clock_, run_and_wait, budget);
  return rotation == nullptr ? seconds : seconds / static_cast<double>(copies.size());
}

}  // namespace weft::test
