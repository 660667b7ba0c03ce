#include "tests/bench/training_step/fixed_data.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/graph/fill_parameter.h"

namespace weft::test {
namespace {

void write(std::ofstream& file, std::span<const std::byte> bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

void write_fixed_data(const std::filesystem::path& folder, const StepModel& model,
                      std::uint64_t seed, int steps) {
  std::filesystem::create_directories(folder);
  std::ofstream weights(folder / "weights.f32", std::ios::binary),
      inputs(folder / "inputs.bin", std::ios::binary);
  nlohmann::json parameters = nlohmann::json::array(), described = nlohmann::json::array();
  std::int64_t offset = 0;
  std::vector<float> values;
  for (const Parameter& parameter : model.graph.parameters()) {
    const Value& value = model.graph.value(parameter.value);
    const Shape& shape = value.type.shape;
    values.resize(value.type.elements());
    fill_parameter(value.name, shape, Region::whole(shape), parameter.initializer, seed, values);
    write(weights, std::as_bytes(std::span(values)));
    parameters.push_back({{"name", value.name}, {"shape", shape}, {"offset", offset}});
    offset += value.type.elements();
  }
  for (const ValueId input : model.inputs) {
    const Value& value = model.graph.value(input);
    described.push_back({{"name", value.name},
                         {"dtype", to_string(value.type.dtype)},
                         {"shape", value.type.shape}});
  }
  for (int step = 0; step < steps; ++step)
    for (const std::vector<std::byte>& content : step_inputs(model, seed, step))
      write(inputs, content);
  std::ofstream(folder / "weights.json") << parameters.dump(1) << '\n';
  std::ofstream(folder / "inputs.json") << described.dump(1) << '\n';
  if (!weights || !inputs)
    throw_error(ErrorCode::kUnavailable, "cannot write to {}", folder.string());
}

}  // namespace weft::test
