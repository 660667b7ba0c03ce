#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "apps/data/corpus.h"
#include "apps/data/text_dataset.h"
#include "apps/data/text_files.h"
#include "apps/data/token_windows.h"
#include "apps/select_input/hashed_ngrams.h"
#include "apps/select_input/internal/preparation.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kTextsPerProgress = 256;

std::vector<fs::path> files_of(const std::string& path) {
  if (path == "linux-doc") return linux_doc_files();
  if (fs::is_directory(path)) return files_in(path);
  return {path};
}

/// Calls `visit(path, text)` for each file. Reports `what` as progress.
void each_text(const Preparation& preparation, std::string_view what,
               const std::function<void(const std::string&, const std::string&)>& visit) {
  if (preparation.input.path == "kjv") {
    preparation.report_progress(what, 0, 1);
    visit("kjv", kjv_text());
    return;
  }
  const std::vector<fs::path> files = files_of(preparation.input.path);
  for (std::size_t i = 0; i < files.size(); ++i) {
    preparation.report_progress(what, i, files.size());
    visit(files[i].string(), read_text(files[i]));
  }
}

/// Buffer that groups vectors into blocks.
class TextVectors {
 public:
  explicit TextVectors(Preparation& preparation) : preparation_(preparation) {
    preparation.begin_vectors(preparation.input.width);
  }
  void append(const std::vector<float>& vector) {
    block_.insert(block_.end(), vector.begin(), vector.end());
    if (block_.size() == kBlockRows * preparation_.input.width) flush();
  }
  void commit() {
    if (!block_.empty()) flush();
    preparation_.commit_vectors();
  }

 private:
  void flush() {
    preparation_.append(block_);
    block_.clear();
  }

  Preparation& preparation_;
  std::vector<float> block_;
};

/// Prepares rows that are parts of a number of words.
void prepare_parts(Preparation& preparation) {
  const int words = preparation.input.words;
  HashedNgrams ngrams(preparation.input.seed, preparation.input.width);
  std::string digest;
  each_text(preparation, "count words", [&](const std::string&, const std::string& text) {
    for (const TextPart& part : parts_of_text(text, words))
      ngrams.count(std::string_view(text).substr(part.offset, part.length));
    const std::string both = digest + sha256(std::as_bytes(std::span(text)));
    digest = sha256(std::as_bytes(std::span(both)));
  });
  preparation.record_duration("count");
  TextVectors vectors(preparation);
  std::uint64_t rows = 0;
  each_text(preparation, "vectors", [&](const std::string& path, const std::string& text) {
    for (const TextPart& part : parts_of_text(text, words)) {
      vectors.append(ngrams.vector_of(std::string_view(text).substr(part.offset, part.length)));
      preparation.append_place({.path = path, .offset = part.offset, .length = part.length});
      ++rows;
    }
  });
  if (rows != ngrams.num_counted())
    throw_error(ErrorCode::kUnavailable,
                "the texts of {} changed while they were read: start again when they are complete",
                preparation.input.path);
  vectors.commit();
  preparation.record_duration("vectors");
  const std::string what = fmt::format("parts|{}|{}", words, digest);
  preparation.result.data_digest = sha256(std::as_bytes(std::span(what)));
  preparation.result.provenance =
      fmt::format("hashed words and pairs of words of parts of {} words", words);
}

TextDataConfig data_of(const SelectInput& input) {
  TextDataConfig data = input.pieces->data;
  data.text = input.path;
  return data;
}

/// Prepares rows that are the pieces that a GPT trains on.
void prepare_pieces(Preparation& preparation) {
  const SelectInput& input = preparation.input;
  const TextDataConfig data = data_of(input);
  const std::size_t sequence = input.pieces->sequence;
  preparation.report_progress("cut the text into tokens", 0, 1);
  const TextDataset dataset = TextDataset::prepare(data);
  const TokenWindows windows(dataset.train, input.pieces->sequence, input.seed);
  const std::uint64_t rows = windows.num_disjoint_windows();
  std::vector<std::int32_t> tokens(sequence);
  const auto each_piece = [&](std::string_view what, const auto& visit) {
    for (std::uint64_t row = 0; row < rows; ++row) {
      if (row % kTextsPerProgress == 0) preparation.report_progress(what, row, rows);
      dataset.train.read(row * sequence, tokens);
      visit(row, dataset.tokenizer->decode(tokens));
    }
  };
  preparation.record_duration("tokens");
  HashedNgrams ngrams(input.seed, input.width);
  each_piece("count words", [&](std::uint64_t, const std::string& text) { ngrams.count(text); });
  preparation.record_duration("count");
  TextVectors vectors(preparation);
  each_piece("vectors", [&](std::uint64_t row, const std::string& text) {
    vectors.append(ngrams.vector_of(text));
    preparation.append_place({.path = input.path, .offset = row * sequence, .length = sequence});
  });
  vectors.commit();
  preparation.record_duration("vectors");
  const bool bytes = data.tokenizer == TextDataConfig::TokenizerKind::kBytes;
  PreparedInput& result = preparation.result;
  result.data_digest = windows.windows_digest();
  result.provenance =
      fmt::format("hashed words and pairs of words of pieces of {} tokens (of {} {})", sequence,
                  dataset.train.vocabulary(), bytes ? "byte values" : "pieces of words");
  result.data_section =
      fmt::format("{{text: {}, tokenizer: {}, validation_fraction: {}}}", data.text,
                  bytes ? "bytes" : fmt::format("bpe, vocabulary: {}", data.vocabulary),
                  data.validation_fraction);
}

}  // namespace

std::string request_of_texts(const SelectInput& input) {
  std::string files;
  if (input.path == "kjv") {
    const std::string text = kjv_text();
    files = sha256(std::as_bytes(std::span(text)));
  } else {
    files = digest_of_files(files_of(input.path));
  }
  if (is_npy(input.utility)) files += digest_of_files(std::vector<fs::path>{input.utility});
  std::string rows = fmt::format("parts of {}", input.words);
  if (input.pieces) {
    const TextDataConfig data = data_of(input);
    rows = fmt::format("pieces|{}|{}|{}|{}", input.pieces->sequence,
                       static_cast<int>(data.tokenizer), data.vocabulary, data.validation_fraction);
  }
  return fmt::format("{}|{}|{}|{}|{}", files, rows, input.width, input.seed, input.utility);
}

void prepare_texts(Preparation& preparation) {
  const SelectInput& input = preparation.input;
  const bool flat = input.utility.empty() || input.utility == "flat";
  if (!flat && !is_npy(input.utility))
    throw_error(ErrorCode::kInvalidArgument,
                "texts have no utility '{}': let input.utility be flat, or a .npy file of a number "
                "for each row",
                input.utility);
  if (input.pieces) prepare_pieces(preparation);
  else prepare_parts(preparation);
  if (!flat) preparation.copy_utility(input.utility);
}

}  // namespace weft::apps
