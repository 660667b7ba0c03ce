#pragma once

#include <cstdint>
#include <string>

#include "apps/data/subset_config.h"
#include "core/codec/codec.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// The `data:` section of a text app. A value.
struct TextDataConfig {
  enum class TokenizerKind : std::uint8_t { kBpe, kBytes };

  std::string text = "kjv";  ///< As named_text() takes it: "kjv", say, or a path.
  TokenizerKind tokenizer = TokenizerKind::kBpe;
  int vocabulary = 1024;  ///< Pieces of the bpe tokenizer; bytes have 256.
  double validation_fraction = 0.05;
  std::string cache;  ///< Where tokenized texts are kept; empty: default_cache().
  /// A text that the trained model is scored on at the end, as `text` is named; empty: none.
  std::string test = {};
  /// Of the pieces to train on; without one, pieces begin at any token.
  SubsetConfig subset = {};

  static constexpr auto fields =
      weft::fields(&TextDataConfig::text, &TextDataConfig::tokenizer, &TextDataConfig::vocabulary,
                   &TextDataConfig::validation_fraction, &TextDataConfig::cache,
                   &TextDataConfig::test, &TextDataConfig::subset);
  friend bool operator==(const TextDataConfig&, const TextDataConfig&) = default;
};

/// Reads and finishes the section. Paths are absolute then: see ConfigNode::as_path.
TextDataConfig parse_text_data(const ConfigNode& node);

}  // namespace weft::apps
