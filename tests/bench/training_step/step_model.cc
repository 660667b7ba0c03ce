#include "tests/bench/training_step/step_model.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <map>
#include <span>

#include "apps/models/gpt_graph.h"
#include "apps/models/u_transformer_graph.h"
#include "core/base/error.h"
#include "core/base/philox.h"

namespace weft::test {
namespace {

const std::map<std::string, apps::GptShape> kGpts{
    {"1.3b",
     {.layers = 24, .width = 2048, .heads = 16, .sequence = 1024, .batch = 8, .vocabulary = 50304}},
    {"350m",
     {.layers = 24,
      .width = 1024,
      .heads = 16,
      .sequence = 1024,
      .batch = 16,
      .vocabulary = 50304}},
    {"124m",
     {.layers = 12, .width = 768, .heads = 12, .sequence = 1024, .batch = 32, .vocabulary = 50304}},
    {"large",
     {.layers = 6, .width = 384, .heads = 6, .sequence = 256, .batch = 8, .vocabulary = 4096}},
    {"small",
     {.layers = 4, .width = 128, .heads = 4, .sequence = 128, .batch = 16, .vocabulary = 2048}},
    {"tiny", {.layers = 2, .width = 64, .heads = 2, .sequence = 32, .batch = 2, .vocabulary = 128}},
};

const std::map<std::string, apps::UTransformerShape> kUTransformers{
    {"u-large",
     {.height = 256,
      .width = 256,
      .classes = 8,
      .levels = 4,
      .channels = 64,
      .group_size = 16,
      .head_dim = 64,
      .batch = 16}},
    {"u-small",
     {.height = 112,
      .width = 96,
      .classes = 8,
      .levels = 3,
      .channels = 32,
      .group_size = 8,
      .head_dim = 32,
      .batch = 4}},
    {"u-tiny",
     {.height = 16,
      .width = 24,
      .classes = 3,
      .levels = 2,
      .channels = 8,
      .group_size = 4,
      .head_dim = 8,
      .attended_skips = 2,
      .batch = 2}},
};

StepModel gpt(apps::GptShape shape, std::int64_t batch, DType precision) {
  shape.precision = precision;
  if (batch > 0) shape.batch = batch;
  const double tokens = shape.batch * shape.sequence;
  apps::GptGraph gpt = apps::gpt_graph(shape, 1 / tokens);
  return {.graph = std::move(gpt.graph),
          .loss = gpt.loss,
          .inputs = {gpt.tokens, gpt.targets},
          .items = tokens,
          .item = "tokens",
          .largest_loss = 2 * std::log(shape.vocabulary)};
}

StepModel u_transformer(apps::UTransformerShape shape, std::int64_t batch, DType precision) {
  shape.precision = precision;
  if (batch > 0) shape.batch = batch;
  apps::UTransformerGraph u = apps::u_transformer_graph(
      shape, 1 / static_cast<double>(shape.batch * shape.height * shape.width));
  return {.graph = std::move(u.graph),
          .loss = u.loss,
          .inputs = {u.pixels, u.targets, u.weights},
          .items = static_cast<double>(shape.batch),
          .item = "pictures",
          .largest_loss = 10 * std::log(shape.classes)};
}

template <typename T>
std::span<T> typed(std::vector<std::byte>& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

double uniform(PhiloxStream& random) {
  return static_cast<double>(random.below(1u << 24)) / (1u << 24);
}

/// Writes random text. Three of four tokens are a function of the token before them.
void write_text(PhiloxStream& random, std::uint64_t vocabulary, std::size_t length,
                std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
  for (std::size_t begin = 0; begin < tokens.size(); begin += length) {
    std::uint64_t token = random.below(vocabulary);
    for (std::size_t i = begin; i < begin + length; ++i) {
      tokens[i] = token;
      token = random.below(4) == 0 ? random.below(vocabulary) : (token * 31 + 7) % vocabulary;
      targets[i] = token;
    }
  }
}

/// Writes pictures. Brightness varies in waves, with noise; a pixel's class is its level of
/// brightness.
void write_pictures(PhiloxStream& random, const Shape& shape, std::int64_t classes,
                    std::span<float> pixels, std::span<std::int32_t> targets,
                    std::span<float> weights) {
  std::size_t at = 0;
  for (std::int64_t picture = 0; picture < shape[0]; ++picture) {
    const double phase = 6.28 * uniform(random), slope = 1 + 3 * uniform(random);
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[2]; ++x, ++at) {
        const double wave = std::sin(phase + slope * x / 8) * std::cos(static_cast<double>(y) / 9);
        pixels[at] = static_cast<float>(wave + 0.2 * (uniform(random) - 0.5));
        targets[at] = static_cast<std::int32_t>(
            std::min<double>(classes - 1, std::floor((wave + 1) / 2 * classes)));
        weights[at] = x % 2 == 0 ? 1.0f : 0.5f;
      }
    }
  }
}

}  // namespace

std::vector<std::string> step_model_names() {
  std::vector<std::string> names;
  for (const auto& [name, shape] : kGpts) names.push_back(name);
  for (const auto& [name, shape] : kUTransformers) names.push_back(name);
  return names;
}

StepModel make_step_model(const std::string& name, std::int64_t batch, DType precision) {
  StepModel model;
  if (const auto found = kGpts.find(name); found != kGpts.end())
    model = gpt(found->second, batch, precision);
  else if (const auto other = kUTransformers.find(name); other != kUTransformers.end())
    model = u_transformer(other->second, batch, precision);
  else
    throw_error(ErrorCode::kInvalidArgument, "there is no model '{}'; there are {}", name,
                fmt::join(step_model_names(), ", "));
  model.name = name;
  return model;
}

std::vector<std::vector<std::byte>> step_inputs(const StepModel& model, std::uint64_t seed,
                                                int step) {
  PhiloxStream random(seed * 1'000'003 + step);
  std::vector<std::vector<std::byte>> contents;
  for (const ValueId input : model.inputs)
    contents.emplace_back(model.graph.value(input).type.bytes());
  const Shape& shape = model.graph.value(model.inputs[0]).type.shape;
  if (model.inputs.size() == 2) {
    const std::uint64_t vocabulary = kGpts.at(model.name).vocabulary;
    write_text(random, vocabulary, shape[1], typed<std::int32_t>(contents[0]),
               typed<std::int32_t>(contents[1]));
  } else {
    write_pictures(random, shape, kUTransformers.at(model.name).classes, typed<float>(contents[0]),
                   typed<std::int32_t>(contents[1]), typed<float>(contents[2]));
  }
  return contents;
}

}  // namespace weft::test
