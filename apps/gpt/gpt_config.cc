#include "apps/gpt/gpt_config.h"

#include <fmt/format.h>

#include "apps/train/precision.h"

namespace weft::apps {

GptShape parse_gpt(const ConfigNode& node) {
  GptShape shape;
  node.require("layers", shape.layers, KeyDescription("Transformer blocks").unit("layers"),
               {.min = 1, .max = 2048});
  node.require("width", shape.width, "Width of the residual stream", {.min = 1, .max = 1 << 20});
  node.require("heads", shape.heads, "Attention heads; they divide the width",
               {.min = 1, .max = 1 << 16});
  node.require("sequence", shape.sequence, KeyDescription("Length of a sequence").unit("tokens"),
               {.min = 1, .max = 1 << 20});
  node.read("tied_embeddings", shape.tied_embeddings,
            "Whether the output layer is the embedding's table, as in GPT-2");
  read_precision(node, shape.precision);
  node.finish();
  if (shape.width % shape.heads != 0)
    node.at("heads").fail(
        fmt::format("width {} does not divide among {} heads", shape.width, shape.heads));
  return shape;
}

SampleConfig parse_sample(const ConfigNode& node) {
  SampleConfig sample;
  node.read("prompt", sample.prompt, "The text that the trained model continues");
  node.read("tokens", sample.tokens,
            KeyDescription("Length of what it writes; 0: nothing").unit("tokens"),
            {.min = 0, .max = 100000});
  node.read("temperature", sample.temperature,
            "How freely it chooses; 0: always the likeliest token", {.min = 0.0, .max = 10.0});
  node.read("top_k", sample.top_k,
            KeyDescription("Likeliest tokens that it chooses among; 0: all").unit("tokens"),
            {.min = 0});
  node.finish();
  if (sample.prompt.empty()) node.at("prompt").fail("the prompt needs at least one character");
  return sample;
}

}  // namespace weft::apps
