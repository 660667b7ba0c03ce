#include "apps/bench/pipeline/pipeline_batches.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "mesh/executor/device_actor.h"

namespace weft::apps {
namespace {

/// Pseudo-random numbers of one row of a stream.
class RowNumbers {
 public:
  RowNumbers(std::uint64_t key, std::uint64_t row) : key_(key), row_(row) {}

  std::uint32_t at(std::uint64_t place) {
    if (place / words_.size() != counter_) {
      counter_ = place / words_.size();
      words_ = philox(key_, counter_, row_);
    }
    return words_[place % words_.size()];
  }

 private:
  const std::uint64_t key_, row_;
  std::uint64_t counter_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words_{};
};

/// Calls `write` for every place of a row's region, in row-major order.
template <typename Write>
void for_each_place(const PipelineInput& input, const Region& region, const Write& write) {
  const std::vector<std::int64_t> strides = row_major_strides(input.shape);
  std::vector<std::int64_t> index;
  for (const Interval& interval : region.intervals()) index.push_back(interval.begin);
  for (;;) {
    std::int64_t place = 0;
    for (std::size_t d = 1; d < index.size(); ++d) place += index[d] * strides[d];
    write(place);
    std::size_t d = index.size() - 1;
    while (d > 0 && ++index[d] == region[d].end) {
      index[d] = region[d].begin;
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace

PipelineBatchesConfig pipeline_batches(const Graph& graph, std::int64_t limit, std::uint64_t seed) {
  PipelineBatchesConfig config{{}, seed};
  for (const Input& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    config.inputs.push_back(
        {value.name, value.name, value.type.shape, 0, value.type.dtype == DType::kI32 ? limit : 0});
  }
  const auto named = [&](std::string_view name) {
    return std::ranges::find(config.inputs, name, &PipelineInput::name);
  };
  const auto tokens = named("tokens"), targets = named("targets");
  if (tokens != config.inputs.end() && targets != config.inputs.end() &&
      tokens->shape == targets->shape && tokens->limit == targets->limit) {
    targets->stream = tokens->stream;
    targets->shift = 1;
  }
  return config;
}

void PipelineBatches::read(std::string_view name, mesh::Split split, std::uint64_t step,
                           int microbatch, int, const Region& region, std::span<std::byte> out) {
  const auto input = std::ranges::find(config_.inputs, name, &PipelineInput::name);
  WEFT_CHECK(input != config_.inputs.end(), "input {}", name);
  static_assert(sizeof(float) == sizeof(std::int32_t));
  WEFT_CHECK(region.rank() == input->shape.size() &&
                 out.size() == static_cast<std::size_t>(region.num_elements()) * sizeof(float),
             "{} bytes for {} of input {}", out.size(), to_string(region), name);
  const std::uint64_t key = config_.seed ^ fnv1a(input->stream.data(), input->stream.size());
  const std::uint64_t first =
      (step << 33) | (std::uint64_t{split == mesh::Split::kValidation} << 32);
  std::byte* to = out.data();
  for (std::int64_t r = region[0].begin; r < region[0].end; ++r) {
    RowNumbers numbers(key, first + (microbatch * input->shape[0] + r));
    for_each_place(*input, region, [&](std::int64_t place) {
      const std::uint32_t word = numbers.at(place + input->shift);
      if (input->limit > 0) {
        const std::int32_t number = word % static_cast<std::uint64_t>(input->limit);
        std::memcpy(to, &number, sizeof number);
      } else {
        const float number = uniform_float(word);
        std::memcpy(to, &number, sizeof number);
      }
      to += sizeof(float);
    });
  }
}

void provide_pipeline_devices(actors::AppMain& app) {
  app.provide<mesh::DeviceActor>(mesh::make_device_actors([](std::span<const std::byte> prepared) {
    return std::make_unique<PipelineBatches>(decode<PipelineBatchesConfig>(prepared));
  }));
}

}  // namespace weft::apps
