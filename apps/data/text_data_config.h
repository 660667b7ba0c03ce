#pragma once

#include <cstdint>
#include <string>

#include "apps/data/subset_config.h"
#include "core/codec/codec.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// `data:` section of a text app. A value.
struct TextDataConfig {
  enum class TokenizerKind : std::uint8_t { kBpe, kBytes };

  std::string text = "kjv";  ///< Name or path as load_text() takes it, such as "kjv".
  TokenizerKind tokenizer = TokenizerKind::kBpe;
  int vocabulary = 1024;  ///< Pieces of the bpe tokenizer. The byte tokenizer has 256.
  double validation_fraction = 0.05;
  std::string cache;  ///< Folder of tokenized texts. Empty for default_cache().
  /// Text that the trained model is scored on at the end, named as `text` is. Empty for none.
  std::string test = {};
  /// Windows to train on. Without a subset, windows begin at any token.
  SubsetConfig subset = {};

  static constexpr auto fields =
      weft::fields(&TextDataConfig::text, &TextDataConfig::tokenizer, &TextDataConfig::vocabulary,
                   &TextDataConfig::validation_fraction, &TextDataConfig::cache,
                   &TextDataConfig::test, &TextDataConfig::subset);
  friend bool operator==(const TextDataConfig&, const TextDataConfig&) = default;
};

/// Reads and finishes the section. Makes paths absolute (see ConfigNode::as_path).
TextDataConfig parse_text_data(const ConfigNode& node);

}  // namespace weft::apps
