#include "apps/data/tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::string_view kBytesMark = "weft byte tokenizer 1";

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
  std::string serialized() const override { return std::string(kBytesMark); }
};

class PieceTokenizer final : public Tokenizer {
 public:
  explicit PieceTokenizer(const std::string& model) {
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok())
      throw_error(ErrorCode::kDataLoss, "the tokenizer's model is damaged: {}", status.ToString());
  }

  int vocabulary_size() const override { return processor_.GetPieceSize(); }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    // Line by line: sentencepiece's time grows faster than the length, and pieces never span a line
    // end.
    std::vector<std::int32_t> ids;
    std::vector<int> line_ids;
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = text.find('\n', begin);
      end = end == std::string_view::npos ? text.size() : end + 1;
      const auto status = processor_.Encode({text.data() + begin, end - begin}, &line_ids);
      if (!status.ok())
        throw_error(ErrorCode::kInternal, "sentencepiece cannot encode: {}", status.ToString());
      ids.insert(ids.end(), line_ids.begin(), line_ids.end());
      begin = end;
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok())
      throw_error(ErrorCode::kInternal, "sentencepiece cannot decode: {}", status.ToString());
    return text;
  }
  std::string serialized() const override { return processor_.serialized_model_proto(); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

/// Feeds lines to the trainer, without their ends.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::string_view text) : text_(text) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    line_.clear();
    while (line_.empty() && begin_ < text_.size()) {
      std::size_t end = text_.find('\n', begin_);
      if (end == std::string_view::npos) end = text_.size();
      line_ = std::string(text_.substr(begin_, end - begin_));
      begin_ = end + 1;
    }
    done_ = line_.empty();
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::string_view text_;
  std::size_t begin_ = 0;
  std::string line_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> train_bpe_tokenizer(std::string_view text, int vocabulary_size) {
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocabulary_size)},
      {"character_coverage", "1.0"},
      // Text comes back as it was: nothing is normalised, no space is added or taken, a line end is
      // a token.
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
  Lines lines(text);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  if (!status.ok()) {
    std::string reason = status.ToString();  // "Internal: file(line) [condition] what went wrong"
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

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& serialized) {
  if (serialized == kBytesMark) return byte_tokenizer();
  return std::make_unique<PieceTokenizer>(serialized);
}

}  // namespace weft::apps
