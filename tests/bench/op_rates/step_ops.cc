#include "tests/bench/op_rates/step_ops.h"

#include <algorithm>
#include <map>
#include <variant>

namespace weft::test {
namespace {

/// Operations of AdamW's formula per element.
constexpr double kAdamWFlops = 17;

double bytes_of(const std::vector<TensorType>& types) {
  double bytes = 0;
  for (const TensorType& type : types) bytes += static_cast<double>(type.bytes());
  return bytes;
}

double elements_of(const std::vector<TensorType>& types) {
  double elements = 0;
  for (const TensorType& type : types) elements += static_cast<double>(type.elements());
  return elements;
}

/// Collects the work of one program.
class Collector {
 public:
  explicit Collector(const mesh::Program& program) : program_(program) {
    for (const mesh::ProgramParameter& parameter : program.parameters)
      gradients_.push_back(type(parameter.gradient));
  }

  void operator()(const mesh::Read& read) { data_[read.buffer] = program_.inputs[read.input].name; }
  void operator()(const mesh::Run& run) {
    StepOp found{.call = StepOp::Call::kRun, .op = program_.ops[run.op]};
    for (const std::uint32_t buffer : run.inputs) {
      found.inputs.push_back(type(buffer));
      const auto data = data_.find(buffer);
      found.data.push_back(data == data_.end() ? "" : data->second);
    }
    for (const std::uint32_t buffer : run.outputs) found.outputs.push_back(type(buffer));
    found.cost = cost(found.op, found.inputs);
    add(std::move(found));
  }
  void operator()(const mesh::Accumulate& accumulate) {
    StepOp found{.call = accumulate.first ? StepOp::Call::kCopy : StepOp::Call::kAdd,
                 .inputs = {type(accumulate.source)},
                 .outputs = {type(accumulate.destination)}};
    found.cost.bytes = bytes_of(found.inputs) + bytes_of(found.outputs);
    if (found.call == StepOp::Call::kAdd) {
      found.cost.flops = elements_of(found.inputs);
      found.cost.bytes += bytes_of(found.outputs);  // read, then written
    }
    add(std::move(found));
  }
  void operator()(const mesh::Norm&) {
    add({.call = StepOp::Call::kSumsOfSquares,
         .inputs = gradients_,
         .cost = {2 * elements_of(gradients_), bytes_of(gradients_)}});
  }
  void operator()(const mesh::Update&) {
    StepOp found{.call = StepOp::Call::kAdamW, .inputs = gradients_};
    for (const mesh::ProgramParameter& parameter : program_.parameters) {
      found.outputs.insert(found.outputs.end(), 3, type(parameter.value));
      // Value and moments are also read.
      found.cost.bytes += 3.0 * static_cast<double>(type(parameter.value).bytes());
      if (parameter.working_copy >= 0)
        found.outputs.push_back(type(static_cast<std::uint32_t>(parameter.working_copy)));
    }
    found.cost.flops = kAdamWFlops * elements_of(gradients_);
    found.cost.bytes += bytes_of(gradients_) + bytes_of(found.outputs);
    add(std::move(found));
  }
  void operator()(const mesh::BeginAction&) {}
  void operator()(const mesh::EndActions&) {}
  void operator()(const mesh::Start&) {}
  void operator()(const mesh::Wait&) {}

  std::vector<StepOp> ops() && { return std::move(ops_); }

 private:
  const TensorType& type(std::uint32_t buffer) const { return program_.buffers[buffer].type; }

  void add(StepOp found) {
    const auto same = std::ranges::find_if(ops_, [&](const StepOp& other) {
      return other.call == found.call && other.op == found.op && other.inputs == found.inputs &&
             other.outputs == found.outputs && other.data == found.data;
    });
    StepOp& op = same != ops_.end() ? *same : ops_.emplace_back(std::move(found));
    ++op.runs;
  }

  const mesh::Program& program_;
  std::vector<TensorType> gradients_;          ///< Types by parameter.
  std::map<std::uint32_t, std::string> data_;  ///< Names of data inputs by buffer.
  std::vector<StepOp> ops_;
};

}  // namespace

std::string StepOp::name() const {
  switch (call) {
    case Call::kRun: return std::string(to_string(op.kind));
    case Call::kAdd: return "add in place";
    case Call::kCopy: return "copy";
    case Call::kSumsOfSquares: return "sums of squares";
    case Call::kAdamW: return "adamw";
  }
  return "?";
}

std::string StepOp::name_with_attributes() const {
  return call == Call::kRun ? to_string(op) : name();
}

std::vector<StepOp> ops_of_step(const mesh::Program& program) {
  Collector collector(program);
  for (const mesh::Instruction& instruction : program.instructions)
    std::visit(collector, instruction);
  return std::move(collector).ops();
}

}  // namespace weft::test
