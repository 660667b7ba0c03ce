#include "apps/u_transformer/u_transformer_config.h"

#include "apps/train/precision.h"
#include "core/base/error.h"

namespace weft::apps {

UTransformerShape parse_u_transformer(const ConfigNode& node) {
  UTransformerShape shape;
  node.require("height", shape.height,
               KeyDescription("Height of a picture, a multiple of 2^levels").unit("pixels"),
               {.min = 8, .max = 4096});
  node.require("width", shape.width,
               KeyDescription("Width of a picture, a multiple of 2^levels").unit("pixels"),
               {.min = 8, .max = 4096});
  node.require("levels", shape.levels, "How often the picture is halved", {.min = 1, .max = 8});
  node.require("channels", shape.channels,
               "Channels at full resolution, doubled with every halving", {.min = 1, .max = 4096});
  node.read(
      "group_size", shape.group_size,
      KeyDescription("Channels that are normalised together; it divides channels").unit("channels"),
      {.min = 1, .max = 4096});
  node.read("head_dim", shape.head_dim, "Width of an attention head; it divides channels",
            {.min = 1, .max = 4096});
  shape.attended_skips = shape.levels;
  node.read("attended_skips", shape.attended_skips,
            KeyDescription("Skip connections, the deepest ones, that pass through cross attention")
                .by_default("levels"),
            {.min = 0, .max = 8});
  read_precision(node, shape.precision);
  node.finish();
  try {
    u_transformer_graph(shape, 1.0);  // throws if the sizes do not fit each other
  } catch (const Error& error) {
    node.fail(error.message());
  }
  return shape;
}

}  // namespace weft::apps
