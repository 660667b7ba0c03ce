#include "apps/data/text_dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "apps/data/corpus.h"
#include "apps/data/text_files.h"
#include "apps/data/unigram.h"
#include "core/base/default_cache.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/private_file.h"
#include "core/base/sha256.h"
#include "core/base/utf8.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr int kFormat = 2;  // increased whenever the same text and options give other files
constexpr int kValidationBlocks = 16;
/// Remedy in errors about a cache that another user owns: its tokens decide the training data.
constexpr const char* kCacheRemedy = "name another folder with `data: {cache: FOLDER}`";

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw_error(ErrorCode::kNotFound, "cannot read {}; remove its folder to prepare the text again",
                path.string());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string folder_name(const TextDataConfig& config, const std::string& text) {
  const bool bytes = config.tokenizer == TextDataConfig::TokenizerKind::kBytes;
  const std::string text_hash = sha256(std::as_bytes(std::span(text)));
  const std::string what =
      fmt::format("{}|{}|{}|{}|{}|{}", kFormat, text_hash, bytes ? "bytes" : "bpe",
                  bytes ? 256 : config.vocabulary, config.validation_fraction, kValidationBlocks);
  const std::string name = config.text == "kjv" ? "kjv" : fs::path(config.text).stem().string();
  return fmt::format("text-{}-{}", name, sha256(std::as_bytes(std::span(what))).substr(0, 16));
}

/// Writes the tokens of a part of the text after checking that they decode to the same bytes.
void write_tokens(const fs::path& path, const Tokenizer& tokenizer, std::string_view part,
                  const TextDataConfig& config, std::string_view text) {
  const std::vector<std::int32_t> ids = tokenizer.encode(part);
  if (const auto at = first_roundtrip_error(tokenizer, ids, part)) {
    const std::string_view character =
        part.substr(*at, std::max<std::size_t>(utf8_length(part, *at), 1));
    throw_error(ErrorCode::kInvalidArgument,
                "{}: the tokenizer cannot restore the character '{}', which is first at byte {}: "
                "replace it, or set `tokenizer: bytes`",
                config.text, character, text.find(character));
  }
  TokenFile::write(path, ids, tokenizer.vocabulary_size());
}

void make(const fs::path& folder, const TextDataConfig& config, const std::string& text) {
  const TextSplit split = split_text(text, config.validation_fraction, kValidationBlocks);
  const auto tokenizer =
      config.tokenizer == TextDataConfig::TokenizerKind::kBytes
          ? byte_tokenizer()
          : train_bpe_tokenizer(split.train, config.vocabulary, split.validation);
  write_atomically(folder / "tokenizer.model", tokenizer->serialized(), 0666);
  write_tokens(folder / "train.tokens", *tokenizer, split.train, config, text);
  write_tokens(folder / "validation.tokens", *tokenizer, split.validation, config, text);
  const TokenFile train(folder / "train.tokens");
  const TokenFile validation(folder / "validation.tokens");
  if (validation.size() < 2)
    throw_error(ErrorCode::kInvalidArgument,
                "{}: a text of {} bytes is too short to train on: {} of its tokens are held out to "
                "validate, expected at least 2; name a longer text, or raise validation_fraction",
                config.text, text.size(), validation.size());
  const nlohmann::json description = {{"text", config.text},
                                      {"text_bytes", text.size()},
                                      {"vocabulary", tokenizer->vocabulary_size()},
                                      {"tokenizer_sha256", sha256_file(folder / "tokenizer.model")},
                                      {"train_tokens", train.size()},
                                      {"validation_tokens", validation.size()},
                                      {"unigram_loss", unigram_loss(train, validation)}};
  write_atomically(folder / "dataset.json", description.dump(2) + "\n", 0666);
}

[[noreturn]] void throw_unwritable(const fs::path& cache, const std::error_code& why) {
  throw_error(ErrorCode::kUnavailable, "cannot write to the cache {}: {}; free space there, or {}",
              cache.string(), why.message(), kCacheRemedy);
}

}  // namespace

TextDataset TextDataset::prepare(const TextDataConfig& config) {
  const std::string text = load_text(config.text, text_form(config));
  const fs::path cache = config.cache.empty() ? default_cache() : fs::path(config.cache);
  check_trusted_owner(cache, kCacheRemedy);
  const fs::path folder = cache / folder_name(config, text);
  std::error_code failed;
  if (fs::exists(folder)) {
    try {
      return open(folder);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDataLoss && error.code() != ErrorCode::kNotFound) throw;
      fs::remove_all(folder, failed);  // damaged, so prepared again
    }
    if (failed) throw_unwritable(cache, failed);
  }
  const fs::path building = cache / fmt::format(".{}.{}", folder.filename().string(), ::getpid());
  make_folders(cache, kCacheRemedy);
  fs::create_directory(building, failed);
  if (failed) throw_unwritable(cache, failed);
  std::error_code ignored;
  try {
    make(building, config, text);
  } catch (...) {
    fs::remove_all(building, ignored);
    throw;
  }
  fs::rename(building, folder, failed);
  if (failed) fs::remove_all(building, ignored);
  // Another process may have created the same folder first.
  if (failed && failed != std::errc::directory_not_empty && failed != std::errc::file_exists)
    throw_unwritable(cache, failed);
  return open(folder);
}

TextDataset TextDataset::open(const fs::path& folder) {
  check_trusted_owner(folder, kCacheRemedy);
  for (const char* file : {"dataset.json", "tokenizer.model", "train.tokens", "validation.tokens"})
    check_trusted_owner(folder / file, kCacheRemedy);
  const auto description = nlohmann::json::parse(read_all(folder / "dataset.json"), nullptr, false);
  if (!description.is_object() || !description.contains("tokenizer_sha256") ||
      !description.contains("unigram_loss") || !description["unigram_loss"].is_number())
    throw_error(ErrorCode::kDataLoss, "{} is damaged; remove {} to prepare the text again",
                (folder / "dataset.json").string(), folder.string());
  if (sha256_file(folder / "tokenizer.model") != description["tokenizer_sha256"])
    throw_error(ErrorCode::kDataLoss, "{} is damaged; remove {} to prepare the text again",
                (folder / "tokenizer.model").string(), folder.string());
  TextDataset dataset{.folder = folder,
                      .tokenizer = load_tokenizer(read_all(folder / "tokenizer.model")),
                      .train = TokenFile(folder / "train.tokens"),
                      .validation = TokenFile(folder / "validation.tokens"),
                      .unigram_loss = description["unigram_loss"]};
  dataset.train.verify();
  dataset.validation.verify();
  return dataset;
}

}  // namespace weft::apps
