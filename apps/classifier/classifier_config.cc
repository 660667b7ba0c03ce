#include "apps/classifier/classifier_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "apps/train/precision.h"

namespace weft::apps {
namespace {

void check_sizes(const ConfigNode& node, const std::string& key,
                 const std::vector<std::int64_t>& sizes) {
  constexpr std::int64_t kMost = 1 << 20;
  if (sizes.empty() || *std::ranges::min_element(sizes) < 1 ||
      *std::ranges::max_element(sizes) > kMost)
    node.record_key_problem(
        key, fmt::format("model.{}: expected a list of sizes from 1 to {}, as [128]", key, kMost));
}

}  // namespace

ClassifierShape parse_classifier(const ConfigNode& node) {
  ClassifierShape shape;
  using Kind = ClassifierShape::Kind;
  node.read_enum("kind", shape.kind, EnumNames<Kind>{{"mlp", Kind::kMlp}, {"cnn", Kind::kCnn}},
                 "Fully connected layers; or convolutions before them");
  if (node.read("hidden", shape.hidden, "Widths of the fully connected layers"))
    check_sizes(node, "hidden", shape.hidden);
  const bool has_channels =
      node.read("channels", shape.channels,
                "Channels of each convolution, which halves height and width; of a cnn, required");
  if (shape.kind == Kind::kCnn) {
    if (has_channels || node.require("channels", shape.channels))
      check_sizes(node, "channels", shape.channels);
  } else if (has_channels) {
    node.record_key_problem(
        "channels", "model.channels: an mlp has no convolutions: remove it, or set kind: cnn");
  }
  read_precision(node, shape.precision);
  node.finish();
  return shape;
}

}  // namespace weft::apps
