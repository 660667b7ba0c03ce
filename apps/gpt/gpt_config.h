#pragma once

#include <cstdint>
#include <string>

#include "apps/models/gpt_graph.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// The `sample:` section: the text that the trained model writes at the end.
struct SampleConfig {
  std::string prompt = "And";
  std::int64_t tokens = 80;
  double temperature = 0.8;  ///< 0 always chooses the likeliest token.
  std::int64_t top_k = 40;   ///< Number of likeliest tokens to draw from; 0 draws from all.

  friend bool operator==(const SampleConfig&, const SampleConfig&) = default;
};

/// Reads and finishes the `model:` section. Leaves the batch and the vocabulary at their defaults.
GptShape parse_gpt(const ConfigNode& node);
SampleConfig parse_sample(const ConfigNode& node);

}  // namespace weft::apps
