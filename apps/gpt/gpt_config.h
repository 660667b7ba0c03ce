#pragma once

#include <cstdint>
#include <string>

#include "apps/models/gpt_graph.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// The `sample:` section: the text that the trained model writes at the end. A value.
struct SampleConfig {
  std::string prompt = "And";
  std::int64_t tokens = 80;
  double temperature = 0.8;  ///< 0: always the likeliest token.
  std::int64_t top_k = 40;   ///< Draw among this many; 0: among all.

  friend bool operator==(const SampleConfig&, const SampleConfig&) = default;
};

/// Reads and finishes the `model:` section; batch and vocabulary are not in it, and stay as they
/// are.
GptShape parse_gpt(const ConfigNode& node);
SampleConfig parse_sample(const ConfigNode& node);

}  // namespace weft::apps
