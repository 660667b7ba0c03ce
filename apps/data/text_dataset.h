#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "apps/data/text_data_config.h"
#include "apps/data/token_file.h"
#include "apps/data/tokenizer.h"

namespace weft::apps {

/// Text, tokenized and split into a training and a validation part: an immutable folder of the
/// cache.
///
/// The folder's name is a hash of the text and of all options that affect the files. So a change of
/// either makes another folder, and runs on one machine share it. Devices open it by path and
/// compare the hashes.
struct TextDataset {
  std::filesystem::path folder;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< Shared because the sampler may outlive the data
                                               ///< set.
  TokenFile train;
  TokenFile validation;
  double unigram_loss = 0;  ///< Nats per token; see unigram.h.

  /// Finds the data set in the cache or creates it, in a few seconds for a few MB. Writes tokens
  /// only after checking that they decode to the same bytes. Throws Error(kInvalidArgument) if they
  /// do not or if the text is too short, and as load_text() does.
  static TextDataset prepare(const TextDataConfig& config);
  /// Opens a folder that prepare() made. Checks its hashes. Throws Error(kNotFound) or
  /// Error(kDataLoss).
  static TextDataset open(const std::filesystem::path& folder);
};

}  // namespace weft::apps
