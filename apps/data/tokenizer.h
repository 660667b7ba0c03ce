#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::apps {

/// Converts text to tokens and back. Not thread-safe.
///
/// There are two kinds: one token per byte, or pieces that sentencepiece learned from the training
/// text. Both restore the text exactly, including line ends, TABs and spaces. Pieces need UTF-8
/// text without zero bytes. A character that is not in the training texts becomes one unknown
/// token.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Ids are in [0, vocabulary_size()).
  virtual int vocabulary_size() const = 0;
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// Returns the number of unknown tokens among the ids.
  virtual std::size_t count_unknown(std::span<const std::int32_t> ids) const = 0;
  /// Returns the bytes that load_tokenizer() takes. Equal tokenizers have equal bytes.
  virtual std::string serialized() const = 0;
};

/// Returns a tokenizer with one token per byte: 256 tokens.
std::unique_ptr<Tokenizer> byte_tokenizer();

/// Trains byte pair encoding with `vocabulary_size` pieces on `text`. The same texts give the same
/// pieces. Each character of `held_out` that `text` lacks gets a piece, so that none is unknown.
/// Throws Error(kInvalidArgument) if the text is too small or has too many distinct characters for
/// that size.
std::unique_ptr<Tokenizer> train_bpe_tokenizer(std::string_view text, int vocabulary_size,
                                               std::string_view held_out = {});

/// Returns the position of the first byte of `text` that decode(ids) does not restore. Null if the
/// whole text is restored.
std::optional<std::size_t> first_roundtrip_error(const Tokenizer& tokenizer,
                                                 std::span<const std::int32_t> ids,
                                                 std::string_view text);

/// Creates a tokenizer from serialized(). Throws Error(kDataLoss) if the bytes are invalid.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& serialized);

}  // namespace weft::apps
