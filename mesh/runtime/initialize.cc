#include "mesh/runtime/initialize.h"

#include <vector>

#include "core/graph/fill_parameter.h"
#include "core/tensor/bfloat16.h"

namespace weft::mesh {

void initialize_parameters(const Program& program, std::uint64_t seed, Storage& storage,
                           Stream& stream) {
  const std::vector<TensorRef> tensors = storage.resolve(program);
  std::vector<float> values;
  for (const ProgramParameter& parameter : program.parameters) {
    const auto make_zero = [&](const TensorRef& tensor) {
      stream.fill_zero({tensor.data, tensor.type.bytes()});
    };
    for (const std::uint32_t moment : {parameter.first_moment, parameter.second_moment})
      make_zero(tensors[moment]);
    const Initializer initializer{static_cast<Initializer::Kind>(parameter.initializer),
                                  parameter.standard_deviation};
    const TensorRef& value = tensors[parameter.value];
    if (initializer.kind == Initializer::Kind::kZeros) {
      make_zero(value);
      if (parameter.working_copy >= 0) make_zero(tensors[parameter.working_copy]);
      stream.synchronize();
      continue;
    }
    values.resize(parameter.region.num_elements());
    fill_parameter(parameter.name, parameter.shape, parameter.region, initializer, seed, values);
    stream.copy(std::as_bytes(std::span(values)), {value.data, value.type.bytes()});
    std::vector<BFloat16> rounded;
    if (parameter.working_copy >= 0) {
      const TensorRef& working = tensors[parameter.working_copy];
      rounded.resize(values.size());
      convert(values, rounded);
      stream.copy(std::as_bytes(std::span(rounded)), {working.data, working.type.bytes()});
    }
    stream.synchronize();
  }
}

}  // namespace weft::mesh
