#include "tests/bench/gpt_step/fixed_data.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/graph/fill_parameter.h"

namespace weft::test {
namespace {

template <typename T>
void write(std::ofstream& file, std::span<const T> values) {
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
}

}  // namespace

void write_fixed_data(const std::filesystem::path& folder, const apps::GptShape& shape, const Graph& graph, std::uint64_t seed,
                      int steps) {
  std::filesystem::create_directories(folder);
  std::ofstream weights(folder / "weights.f32", std::ios::binary), tokens(folder / "tokens.i32", std::ios::binary);
  nlohmann::json entries = nlohmann::json::array();
  std::int64_t offset = 0;
  std::vector<float> values;
  for (const Parameter& parameter : graph.parameters()) {
    const Value& value = graph.value(parameter.value);
    values.resize(static_cast<std::size_t>(value.type.elements()));
    fill_parameter(value.name, value.type.shape, Region::whole(value.type.shape), parameter.initializer, seed, values);
    write<float>(weights, values);
    entries.push_back({{"name", value.name}, {"shape", value.type.shape}, {"offset", offset}});
    offset += value.type.elements();
  }
  PhiloxStream random(seed);
  const auto vocabulary = static_cast<std::uint64_t>(shape.vocabulary);
  const auto length = static_cast<std::size_t>(shape.sequence);
  std::vector<std::int32_t> sequence(length + 1), inputs, targets;
  for (int step = 0; step < steps; ++step) {
    inputs.clear();
    targets.clear();
    for (std::int64_t row = 0; row < shape.batch; ++row) {
      // Each token follows from the one before it, but for one in four.
      std::uint64_t token = random.below(vocabulary);
      for (std::int32_t& id : sequence) {
        id = static_cast<std::int32_t>(token);
        token = random.below(4) == 0 ? random.below(vocabulary) : (token * 31 + 7) % vocabulary;
      }
      inputs.insert(inputs.end(), sequence.begin(), sequence.end() - 1);
      targets.insert(targets.end(), sequence.begin() + 1, sequence.end());
    }
    write<std::int32_t>(tokens, inputs);
    write<std::int32_t>(tokens, targets);
  }
  std::ofstream(folder / "weights.json") << entries.dump(1) << '\n';
  if (!weights || !tokens) throw_error(ErrorCode::kUnavailable, "cannot write to {}", folder.string());
}

FixedTokens::FixedTokens(const std::filesystem::path& folder, const apps::GptShape& shape)
    : size_(static_cast<std::size_t>(shape.batch * shape.sequence)) {
  const auto path = folder / "tokens.i32";
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw_error(ErrorCode::kUnavailable, "cannot read {}; write it with --dump {}", path.string(), folder.string());
  const auto bytes = static_cast<std::size_t>(file.tellg());
  if (bytes == 0 || bytes % (2 * size_ * sizeof(std::int32_t)) != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "{} holds {} bytes, not steps of 2 x {} x {} tokens: it was written for another shape", path.string(), bytes,
                shape.batch, shape.sequence);
  }
  data_.resize(bytes / sizeof(std::int32_t));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(data_.data()), static_cast<std::streamsize>(bytes));
}

}  // namespace weft::test
