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

/// Cuts text into tokens and joins them again. One thread at a time.
///
/// Two kinds: one token per byte, or pieces that sentencepiece has learned from the training text.
/// Both give the text back as it was, line ends, TABs and spaces included. Pieces need a text in
/// UTF-8 without zero bytes; a character that was not in the texts of training becomes one unknown
/// token.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Ids are in [0, vocabulary_size()).
  virtual int vocabulary_size() const = 0;
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// Returns how many of the ids are the unknown token.
  virtual std::size_t count_unknown(std::span<const std::int32_t> ids) const = 0;
  /// What load_tokenizer() takes; equal tokenizers have equal bytes.
  virtual std::string serialized() const = 0;
};

/// 256 tokens.
std::unique_ptr<Tokenizer> byte_tokenizer();

/// Byte pair encoding with `vocabulary_size` pieces, learned from `text`; the same texts give the
/// same pieces. Characters of `held_out` that `text` lacks get a piece each, so that none is
/// unknown. Throws Error(kInvalidArgument) if the text is too small or has too many distinct
/// characters for that size.
std::unique_ptr<Tokenizer> train_bpe_tokenizer(std::string_view text, int vocabulary_size,
                                               std::string_view held_out = {});

/// Returns the position in `text` of the first byte that decode(ids) gives back otherwise or not at
/// all, or nothing if it gives the text back.
std::optional<std::size_t> first_difference(const Tokenizer& tokenizer,
                                            std::span<const std::int32_t> ids,
                                            std::string_view text);

/// Throws Error(kDataLoss) if the bytes are not those of a tokenizer.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& serialized);

}  // namespace weft::apps
