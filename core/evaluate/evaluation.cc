#include "core/evaluate/evaluation.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/evaluate/memory_plan.h"
#include "core/graph/fill_parameter.h"
#include "core/tensor/bfloat16.h"

namespace weft {
namespace {

bool contains(const std::vector<ValueId>& values, ValueId value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

Evaluation::Evaluation(Device& device, Graph graph, std::vector<ValueId> results,
                       std::vector<ValueId> accumulated)
    : device_(device), graph_(std::move(graph)), stream_(device.create_stream()) {
  results.insert(results.end(), accumulated.begin(), accumulated.end());
  for (const ValueId result : results) {
    if (result.value() >= graph_.values().size() || !graph_.value(result).producer) {
      throw_error(ErrorCode::kInvalidArgument, "the result %{} is not computed by the graph",
                  result);
    }
  }
  list_needed_ops(results, accumulated);
  place_values(device, results);
  prepare_calls(accumulated);
}

Evaluation::~Evaluation() {
  try {
    stream_->synchronize();
  } catch (...) {
    // Failed work no longer uses the memory, and its error was reported to readers of the results.
    static_cast<void>(current_error());
  }
}

void Evaluation::list_needed_ops(const std::vector<ValueId>& results,
                                 const std::vector<ValueId>& accumulated) {
  std::vector<bool> needed(graph_.values().size(), false);
  for (const ValueId result : results) needed[result.value()] = true;
  const auto numbers = [](const std::vector<ValueId>& values) {
    std::vector<std::uint32_t> result;
    for (const ValueId value : values) result.push_back(value.value());
    return result;
  };
  for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
    const Node& node = graph_.nodes()[i];
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId output) { return needed[output.value()]; }))
      continue;
    for (const ValueId input : node.inputs) {
      if (contains(accumulated, input)) {
        throw_error(ErrorCode::kInvalidArgument, "'{}' cannot be accumulated: {} uses it",
                    graph_.value(input).name, to_string(node.op));
      }
      needed[input.value()] = true;
    }
    std::uint32_t accumulates = 0;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (contains(accumulated, node.outputs[o])) accumulates |= 1u << o;
    }
    ops_.push_back({&node.op, numbers(node.inputs), numbers(node.outputs), accumulates});
  }
  std::reverse(ops_.begin(), ops_.end());
}

void Evaluation::fuse_ops() {
  const ListedTensors tensors{
      [this](std::uint32_t value) -> const TensorType& {
        return graph_.value(ValueId(value)).type;
      },
      [this](std::uint32_t value) { return static_cast<bool>(readable_[value]); },
  };
  for (Fusion& fusion : find_fusions(ops_, tensors)) {
    fused_.push_back(std::move(fusion.op));
    for (const std::size_t removed : fusion.removed) ops_[removed].op = nullptr;
    ops_[fusion.last] = {&fused_.back(), std::move(fusion.inputs), std::move(fusion.outputs),
                         fusion.accumulate};
  }
  std::erase_if(ops_, [](const ListedOp& listed) { return listed.op == nullptr; });
}

void Evaluation::place_values(Device& device, const std::vector<ValueId>& results) {
  const std::size_t count = graph_.values().size();
  addresses_.assign(count, nullptr);
  readable_.assign(count, false);
  std::vector<std::size_t> offsets(count, 0);
  std::size_t size = 0;
  const auto keep = [&](ValueId value) {
    if (readable_[value.value()]) return;
    readable_[value.value()] = true;
    offsets[value.value()] = size;
    size += (graph_.value(value).type.bytes() + 63) / 64 * 64;
  };
  for (const Parameter& parameter : graph_.parameters()) keep(parameter.value);
  for (const ValueId result : results) keep(result);
  for (const Input& input : graph_.inputs()) keep(input.value);
  fuse_ops();
  const MemoryPlan plan = plan_memory(graph_, ops_, readable_);
  persistent_ = device.allocate(size);
  temporary_ = device.allocate(plan.size);
  stream_->fill_zero({persistent_.data(), persistent_.size()});
  for (std::size_t value = 0; value < count; ++value) {
    if (readable_[value]) {
      addresses_[value] = persistent_.data() + offsets[value];
    } else if (plan.offsets[value]) {
      addresses_[value] = temporary_.data() + *plan.offsets[value];
    }
  }
}

void Evaluation::prepare_calls(const std::vector<ValueId>& accumulated) {
  for (const ListedOp& listed : ops_) {
    OpCall call{listed.op, {}, {}, {}, listed.accumulate != 0};
    for (const std::uint32_t input : listed.inputs)
      call.inputs.push_back({graph_.value(ValueId(input)).type, addresses_[input]});
    for (const std::uint32_t output : listed.outputs) {
      call.outputs.push_back({graph_.value(ValueId(output)).type, addresses_[output]});
      call.accumulating.push_back(contains(accumulated, ValueId(output)) ? OutputMode::kAccumulate
                                                                         : OutputMode::kWrite);
    }
    calls_.push_back(std::move(call));
  }
}

TensorRef Evaluation::tensor(ValueId value) const {
  if (value.value() >= readable_.size() || !readable_[value.value()]) {
    throw_error(ErrorCode::kInvalidArgument,
                "%{} is neither an input, a parameter nor a result of this evaluation", value);
  }
  return {graph_.value(value).type, addresses_[value.value()]};
}

void Evaluation::require_host_memory() const {
  if (device_.is_host_memory()) return;
  throw_error(ErrorCode::kInvalidArgument,
              "the host cannot access the memory of {}: use read() and write()",
              device_.description());
}

void Evaluation::write(ValueId value, std::span<const std::byte> content) {
  const TensorRef to = tensor(value);
  if (content.size() != to.type.bytes()) {
    throw_error(ErrorCode::kInvalidArgument, "'{}' is {} and takes {} bytes, not {}",
                graph_.value(value).name, to_string(to.type), to.type.bytes(), content.size());
  }
  if (device_.is_host_memory()) {
    std::ranges::copy(content, to.data);
    return;
  }
  Staging& staging = staging_[value];
  if (staging.memory.data() == nullptr) staging.memory = device_.allocate_staging(content.size());
  if (staging.copied != nullptr) staging.copied->synchronize();
  std::ranges::copy(content, staging.memory.data());
  stream_->copy({staging.memory.data(), content.size()}, {to.data, content.size()});
  staging.copied = stream_->record();
}

void Evaluation::read(ValueId value, std::span<std::byte> content) {
  const TensorType type = tensor(value).type;
  WEFT_CHECK(content.size() == type.bytes(), "{} bytes for {}", content.size(), to_string(type));
  read_part(value, 0, content);
}

void Evaluation::read_part(ValueId value, std::size_t begin, std::span<std::byte> content) {
  const TensorRef from = tensor(value);
  WEFT_CHECK(begin <= from.type.bytes() && content.size() <= from.type.bytes() - begin,
             "{} bytes from {} on of {}", content.size(), begin, to_string(from.type));
  stream_->copy({from.data + begin, content.size()}, content);
  stream_->synchronize();
}

void Evaluation::fill_parameters(std::uint64_t seed) {
  std::vector<float> values;
  for (const Parameter& parameter : graph_.parameters()) {
    const Value& value = graph_.value(parameter.value);
    values.resize(value.type.elements());
    fill_parameter(value.name, value.type.shape, Region::whole(value.type.shape),
                   parameter.initializer, seed, values);
    set_parameter(parameter.value, values);
  }
}

void Evaluation::set_parameter(ValueId parameter, std::span<const float> values) {
  const TensorRef to = tensor(parameter);
  if (to.type.elements() != std::ssize(values)) {
    throw_error(ErrorCode::kInvalidArgument, "'{}' is {}, but {} values were given",
                graph_.value(parameter).name, to_string(to.type), values.size());
  }
  std::vector<BFloat16> rounded;
  std::span<const std::byte> content = std::as_bytes(values);
  if (to.type.dtype == DType::kBF16) {
    rounded.resize(values.size());
    convert(values, std::span(rounded));
    content = std::as_bytes(std::span(rounded));
  }
  stream_->copy(content, {to.data, content.size()});
  stream_->synchronize();
}

void Evaluation::queue(OutputMode accumulated) {
  for (const OpCall& call : calls_) {
    const bool adds = call.accumulates && accumulated == OutputMode::kAccumulate;
    stream_->run(
        *call.op, call.inputs, call.outputs,
        adds ? std::span<const OutputMode>(call.accumulating) : std::span<const OutputMode>());
  }
}

void Evaluation::run(OutputMode accumulated) {
  Runs& runs = runs_[accumulated == OutputMode::kAccumulate ? 1 : 0];
  if (runs.recording != nullptr) {
    stream_->replay(*runs.recording);
  } else if (runs.queued == 1) {
    // The first run has done all one-time preparations of the ops.
    runs.recording = stream_->record_work([&] { queue(accumulated); });
  } else {
    queue(accumulated);
  }
  runs.queued = std::min(runs.queued + 1, 2);
  if (device_.is_host_memory()) stream_->synchronize();
}

}  // namespace weft
