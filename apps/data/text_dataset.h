#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "apps/data/text_data_config.h"
#include "apps/data/token_file.h"
#include "apps/data/tokenizer.h"

namespace weft::apps {

/// $XDG_CACHE_HOME/weft, or ~/.cache/weft, or weft-cache in the temporary folder when there is no
/// home.
std::filesystem::path default_cache();

/// A text, tokenized and cut in training and validation part: an immutable folder of the cache.
///
/// The folder's name is a hash of the text and of everything that shaped it, so a change of either
/// makes another one, and runs on one machine share it. Devices open it by path and compare the
/// hashes.
struct TextDataset {
  std::filesystem::path folder;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< Shared: the sampler may outlive the dataset.
  TokenFile train;
  TokenFile validation;
  double unigram_loss = 0;  ///< Nats per token; see unigram.h.

  /// Finds the dataset in the cache, or makes it: a few seconds for a few MB. Tokens are written
  /// only after they have been decoded and have given the text back, byte for byte. Throws
  /// Error(kInvalidArgument) if they do not, or if the text is too short, and as named_text() does.
  static TextDataset prepare(const TextDataConfig& config);
  /// One that prepare() has made. Checks hashes. Throws Error(kNotFound) or Error(kDataLoss).
  static TextDataset open(const std::filesystem::path& folder);
};

}  // namespace weft::apps
