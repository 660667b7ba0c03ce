#include "apps/data/tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace weft::apps {
namespace {

constexpr std::string_view kBytesMark = "weft byte tokenizer 1";

/// Maximum bytes of a line or word passed to sentencepiece at once. Its trainer aborts the process
/// at words of 32,768 characters and skips lines of 100,000 bytes.
constexpr std::size_t kChunkBytes = 8192;

/// Character that sentencepiece treats specially, and its replacement. The trainer drops TAB and
/// lines with U+2585, and U+2581 is its space. The replacements are noncharacters, which Unicode
/// reserves for internal use.
struct Reserved {
  std::string_view character, substitute;
};
constexpr Reserved kReserved[] = {
    {"\t", "\xef\xb7\x90"},            // U+FDD0
    {"\xe2\x96\x81", "\xef\xb7\x91"},  // U+2581, U+FDD1
    {"\xe2\x96\x85", "\xef\xb7\x92"},  // U+2585, U+FDD2
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

/// Returns the text with reserved characters replaced, as sentencepiece reads it.
std::string escape_reserved(std::string_view text) {
  std::string result(text);
  for (const Reserved& one : kReserved) replace_all(result, one.character, one.substitute);
  return result;
}

/// Returns the end of the chunk that begins at `begin`. A chunk is a line with its line end. A line
/// longer than kChunkBytes is cut before its last space that fits, and a longer word between
/// characters. Pieces never span a line end, and contain a space only as their first character. So
/// chunks change the tokens of words longer than kChunkBytes only.
std::size_t chunk_end(std::string_view text, std::size_t begin) {
  const std::string_view window = text.substr(begin, kChunkBytes);
  if (const std::size_t end = window.find('\n'); end != std::string_view::npos)
    return begin + end + 1;
  if (begin + window.size() == text.size()) return text.size();
  const std::size_t space = window.find_last_of(" \t");
  if (space != std::string_view::npos && space > 0) return begin + space;
  std::size_t end = begin + window.size();
  while (end > begin + 1 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

class ByteTokenizer final : public Tokenizer {
 public:
  int vocabulary_size() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    ids.reserve(text.size());
    for (char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (std::int32_t id : ids) text += static_cast<char>(id);
    return text;
  }
  std::size_t count_unknown(std::span<const std::int32_t>) const override { return 0; }
  std::string serialized() const override { return std::string(kBytesMark); }
};

class PieceTokenizer final : public Tokenizer {
 public:
  explicit PieceTokenizer(const std::string& model) {
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok())
      throw_error(
          ErrorCode::kDataLoss,
          "the tokenizer's model is damaged: {}; remove its folder to prepare the text again",
          status.ToString());
    for (int id = 0; id < processor_.GetPieceSize(); ++id) surfaces_.push_back(surface_of(id));
  }

  int vocabulary_size() const override { return static_cast<int>(surfaces_.size()); }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    // Encodes in chunks, as sentencepiece's time grows faster than linearly.
    std::vector<std::int32_t> ids;
    std::vector<int> chunk_ids;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = chunk_end(text, begin);
      const std::string chunk = escape_reserved(text.substr(begin, end - begin));
      const auto status = processor_.Encode(chunk, &chunk_ids);
      if (!status.ok())
        throw_error(ErrorCode::kInternal, "sentencepiece cannot encode: {}", status.ToString());
      ids.insert(ids.end(), chunk_ids.begin(), chunk_ids.end());
      begin = end;
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary_size())
        throw_error(ErrorCode::kInvalidArgument, "there is no token {} in a vocabulary of {}", id,
                    vocabulary_size());
      text += surfaces_[static_cast<std::size_t>(id)];
    }
    return text;
  }
  std::size_t count_unknown(std::span<const std::int32_t> ids) const override {
    return static_cast<std::size_t>(std::ranges::count(ids, processor_.unk_id()));
  }
  std::string serialized() const override { return processor_.serialized_model_proto(); }

 private:
  /// Returns the text of a piece, "?" for the unknown token.
  std::string surface_of(int id) const {
    if (processor_.IsUnknown(id)) return "?";
    std::string surface = processor_.IdToPiece(id);
    replace_all(surface, kSpace, " ");
    for (const Reserved& one : kReserved) replace_all(surface, one.substitute, one.character);
    return surface;
  }

  static constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<std::string> surfaces_;  ///< Text of each piece, by id.
};

/// Iterator over the trainer's input: chunks without line ends, then single characters.
class Chunks final : public sentencepiece::SentenceIterator {
 public:
  Chunks(std::string_view text, std::vector<std::string> characters)
      : text_(text), characters_(std::move(characters)) {
    Next();
  }
  bool done() const override { return chunk_.empty(); }
  void Next() override {
    chunk_.clear();
    while (chunk_.empty() && begin_ < text_.size()) {
      const std::size_t end = chunk_end(text_, begin_);
      chunk_ = escape_reserved(text_.substr(begin_, end - begin_));
      if (chunk_.ends_with('\n')) chunk_.pop_back();
      begin_ = end;
    }
    if (!chunk_.empty() || characters_.empty()) return;
    chunk_ = escape_reserved(characters_.back());
    characters_.pop_back();
  }
  const std::string& value() const override { return chunk_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::string_view text_;
  std::size_t begin_ = 0;
  std::vector<std::string> characters_;  ///< Characters not returned yet.
  std::string chunk_;
};

/// Distinct characters of a text and the number of their occurrences.
using CharacterCounts = std::map<std::string, std::uint64_t, std::less<>>;

void count_characters(std::string_view text, CharacterCounts& alphabet) {
  std::array<std::uint64_t, 128> ascii{};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text, at), 1);
    if (length == 1) {
      ++ascii[static_cast<unsigned char>(text[at]) & 0x7f];
    } else if (const auto known = alphabet.find(text.substr(at, length)); known != alphabet.end()) {
      ++known->second;
    } else {
      alphabet.emplace(text.substr(at, length), 1);
    }
    at += length;
  }
  for (std::size_t c = 0; c < ascii.size(); ++c)
    if (ascii[c] > 0) alphabet[std::string(1, static_cast<char>(c))] += ascii[c];
}

/// Returns characters that the trainer would drop as too rare, as its shares have 24 bits.
std::string rare_characters(const CharacterCounts& of_text) {
  std::uint64_t characters = 0;
  for (const auto& [character, count] : of_text) characters += count;
  std::string rare;
  for (const auto& [character, count] : of_text)
    if (character != "\n" && character != " " && count <= characters >> 24) rare += character;
  return escape_reserved(rare);
}

/// Returns the characters of `of_all` that `of_text` lacks, without the line end, which is not a
/// character to the trainer.
std::vector<std::string> missing_characters(const CharacterCounts& of_text,
                                            const CharacterCounts& of_all) {
  std::vector<std::string> missing;
  for (const auto& [character, _] : of_all)
    if (character != "\n" && !of_text.contains(character)) missing.push_back(character);
  return missing;
}

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> train_bpe_tokenizer(std::string_view text, int vocabulary_size,
                                               std::string_view held_out) {
  CharacterCounts of_text;
  count_characters(text, of_text);
  CharacterCounts of_all = of_text;
  count_characters(held_out, of_all);
  of_all.emplace("\n", 0);
  // Needs one piece per character, and the unknown token.
  if (const std::size_t least = of_all.size() + 1;
      least > static_cast<std::size_t>(vocabulary_size))
    throw_error(ErrorCode::kInvalidArgument,
                "a text of {} distinct characters needs a `vocabulary` of at least {}, and {} is "
                "given: raise it, or set `tokenizer: bytes`",
                of_all.size(), least, vocabulary_size);
  std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocabulary_size)},
      {"character_coverage", "1.0"},
      // Keep the text unchanged: no normalisation, no spaces added or removed, line ends as tokens.
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"user_defined_symbols", "\n"},
      {"unk_surface", "?"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"num_threads", "1"},
      {"max_sentence_length", "100000"},
      {"minloglevel", "2"},
  };
  if (std::string rare = rare_characters(of_text); !rare.empty())
    options.emplace("required_chars", std::move(rare));
  // A word of one character has no pair to merge, so it gets a piece and changes no other piece.
  Chunks chunks(text, missing_characters(of_text, of_all));
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &chunks, &model);
  if (!status.ok()) {
    std::string reason = status.ToString();  // "Internal: file(line) [condition] message"
    if (const std::size_t end = reason.find("] "); end != std::string::npos)
      reason.erase(0, end + 2);
    throw_error(
        ErrorCode::kInvalidArgument,
        "cannot learn {} pieces from a text of {} bytes: {} Choose another `vocabulary`, or "
        "`tokenizer: bytes`",
        vocabulary_size, text.size(), reason);
  }
  return std::make_unique<PieceTokenizer>(model);
}

std::optional<std::size_t> first_roundtrip_error(const Tokenizer& tokenizer,
                                                 std::span<const std::int32_t> ids,
                                                 std::string_view text) {
  constexpr std::size_t kIdsAtOnce = 4096;
  std::size_t at = 0;
  while (!ids.empty()) {
    const auto some = ids.first(std::min(ids.size(), kIdsAtOnce));
    ids = ids.subspan(some.size());
    const std::string decoded = tokenizer.decode(some);
    const std::string_view expected = text.substr(at, decoded.size());
    if (decoded != expected) {
      const auto differs = std::ranges::mismatch(decoded, expected);
      return at + static_cast<std::size_t>(differs.in1 - decoded.begin());
    }
    at += decoded.size();
  }
  if (at < text.size()) return at;
  return std::nullopt;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& serialized) {
  if (serialized == kBytesMark) return byte_tokenizer();
  return std::make_unique<PieceTokenizer>(serialized);
}

}  // namespace weft::apps
