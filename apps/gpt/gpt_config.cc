#include "apps/gpt/gpt_config.h"

#include <fmt/format.h>

#include "apps/train/precision.h"

namespace weft::apps {

GptShape parse_gpt(const ConfigNode& node) {
  GptShape shape;
  node.require("layers", shape.layers, {.min = 1, .max = 10000});
  node.require("width", shape.width, {.min = 1, .max = 1 << 20});
  node.require("heads", shape.heads, {.min = 1, .max = 1 << 16});
  node.require("sequence", shape.sequence, {.min = 1, .max = 1 << 20});
  node.read("tied_embeddings", shape.tied_embeddings);
  read_precision(node, shape.precision);
  node.finish();
  if (shape.width % shape.heads != 0)
    node.at("heads").fail(
        fmt::format("width {} does not divide among {} heads", shape.width, shape.heads));
  return shape;
}

SampleConfig parse_sample(const ConfigNode& node) {
  SampleConfig sample;
  node.read("prompt", sample.prompt);
  node.read("tokens", sample.tokens, {.min = 0, .max = 100000});
  node.read("temperature", sample.temperature, {.min = 0.0, .max = 10.0});
  node.read("top_k", sample.top_k, {.min = 0});
  node.finish();
  if (sample.prompt.empty()) node.at("prompt").fail("the prompt needs at least one character");
  return sample;
}

}  // namespace weft::apps
