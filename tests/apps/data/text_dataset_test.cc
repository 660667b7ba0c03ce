#include "apps/data/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>

#include "apps/data/token_windows.h"
#include "apps/data/unigram.h"
#include "core/base/error.h"
#include "core/config/config_document.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;

class DatasetTest : public ::testing::Test {
 protected:
  TokenFile tokens(const std::vector<std::int32_t>& ids, int vocabulary, const char* name = "t") {
    TokenFile::write(root_ / name, ids, vocabulary);
    return TokenFile(root_ / name);
  }
  /// Writes about 40 kB of sentences over a few hundred words. Returns the file.
  fs::path some_text() {
    std::mt19937 random(7);
    std::ofstream out(root_ / "text.txt");
    for (int line = 0; line < 800; ++line) {
      for (int word = 0; word < 8; ++word)
        out << "w" << char('a' + random() % 20) << random() % 12 << "  "[random() % 9 == 0] << " ";
      out << "end.\n" << (line % 20 == 19 ? "\n" : "");
    }
    return root_ / "text.txt";
  }
  TextDataConfig config(const fs::path& text) {
    return {.text = text.string(),
            .vocabulary = 70,
            .validation_fraction = 0.1,
            .cache = root_ / "cache"};
  }
  static std::vector<std::int32_t> all(const TokenFile& file) {
    std::vector<std::int32_t> ids(file.size());
    file.read(0, ids);
    return ids;
  }

  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST(Tokenizer, BytesGiveAnyTextBack) {
  const auto tokenizer = byte_tokenizer();
  const std::string text("a\0b\xff\n", 5);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(load_tokenizer(tokenizer->serialized())->vocabulary_size(), 256);
}

TEST(Tokenizer, PiecesGiveTheTextBackWithItsSpacesAndLineEnds) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += "the lord said unto him, " + std::to_string(i % 10) + "\n\n  and he went  up\n";
  const auto tokenizer = train_bpe_tokenizer(text, 80);
  EXPECT_EQ(tokenizer->vocabulary_size(), 80);
  const std::string line = "  and the  lord went\n\nup, 7 ";
  const auto ids = tokenizer->encode(line);
  EXPECT_LT(ids.size(), line.size());
  EXPECT_EQ(tokenizer->decode(ids), line);
  EXPECT_EQ(tokenizer->encode("\n").size(), 1u);
  for (std::int32_t id : tokenizer->encode("ZQ")) EXPECT_LT(id, 80);  // unknown characters
  EXPECT_EQ(load_tokenizer(tokenizer->serialized())->encode(line), ids);
  EXPECT_EQ(train_bpe_tokenizer(text, 80)->serialized(), tokenizer->serialized());
}

/// Returns `count` distinct lines of small words.
std::string plain_lines(int count) {
  std::mt19937 random(3);
  std::string text;
  for (int line = 0; line < count; ++line) {
    for (int word = 0; word < 12; ++word) {
      if (word > 0) text += ' ';
      for (unsigned letters = 2 + random() % 5; letters > 0; --letters)
        text += static_cast<char>('a' + random() % 8);
    }
    text += '\n';
  }
  return text;
}

void expect_round_trip(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  EXPECT_EQ(first_roundtrip_error(tokenizer, ids, text), std::nullopt);
  EXPECT_EQ(tokenizer.count_unknown(ids), 0u);
}

TEST(Tokenizer, CharactersThatMeanSomethingToTheTrainerComeBackAsTheyWere) {
  std::string text = plain_lines(50);
  // Lines with TABs, and lines with U+2581, U+2585 and control characters.
  for (int i = 0; i < 50; ++i)
    text += "a\tb\t\tc " + std::to_string(i) + "\n\xe2\x96\x81\xe2\x96\x85 bar \x1b[0m\x07\n";
  const auto tokenizer = train_bpe_tokenizer(text, 80);
  expect_round_trip(*tokenizer, text);
  expect_round_trip(*load_tokenizer(tokenizer->serialized()), text);
}

TEST(Tokenizer, LongWordsAndLongLinesAreLearnedFromAndComeBack) {
  std::mt19937 random(5);
  std::string word;
  for (int i = 0; i < 70'000; ++i) word += "ACGT"[random() % 4];
  std::string line;
  for (int i = 0; i < 26'000; ++i) line += "XYZ ";
  const std::string text = plain_lines(100) + word + "\n" + line + "\n\xc3\xa4" +
                           std::string(20'000, ' ') + plain_lines(100);
  const auto tokenizer = train_bpe_tokenizer(text, 64);
  expect_round_trip(*tokenizer, text);
  // The trainer saw the long line: its words became pieces.
  EXPECT_LT(tokenizer->encode("XYZ XYZ XYZ").size(), 6u);
}

TEST(Tokenizer, ALongLineHasTheTokensOfItsWords) {
  const auto tokenizer = train_bpe_tokenizer(plain_lines(300), 64);
  std::string text = plain_lines(3000);
  std::ranges::replace(text, '\n', ' ');
  std::vector<std::int32_t> by_words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin + 1), text.size());
    for (const std::int32_t id : tokenizer->encode(text.substr(begin, end - begin)))
      by_words.push_back(id);
    begin = end;
  }
  EXPECT_EQ(tokenizer->encode(text), by_words);
}

TEST(Tokenizer, CharactersThatAreOnlyHeldOutHaveAPieceEach) {
  const std::string text = plain_lines(200), held_out = "ba\xc3\xaf Q\tz\n";
  const auto without = train_bpe_tokenizer(text, 64),
             with = train_bpe_tokenizer(text, 64, held_out);
  EXPECT_GT(without->count_unknown(without->encode(held_out)), 0u);
  EXPECT_EQ(first_roundtrip_error(*without, without->encode(held_out), held_out), 2u);
  expect_round_trip(*with, held_out);
  expect_round_trip(*with, text);
  // Held-out characters that the text has too change nothing.
  EXPECT_EQ(train_bpe_tokenizer(text, 64, plain_lines(20))->serialized(), without->serialized());
}

TEST(Tokenizer, AVocabularyThatDoesNotFitTheTextSaysWhatToDo) {
  for (const int vocabulary : {4, 30000})
    EXPECT_THAT([&] { train_bpe_tokenizer("just a few words\n", vocabulary); },
                test::throws_error(ErrorCode::kInvalidArgument, "tokenizer: bytes"))
        << vocabulary;
  EXPECT_THAT([&] { load_tokenizer("not a model"); },
              test::throws_error(ErrorCode::kDataLoss, "the tokenizer's model is damaged"));
}

TEST_F(DatasetTest, TokenFilesHoldSmallAndLargeVocabularies) {
  EXPECT_EQ(all(tokens({0, 65535, 3}, 65536)), (std::vector<std::int32_t>{0, 65535, 3}));
  const TokenFile large = tokens({0, 70000, 3}, 70001, "large");
  EXPECT_EQ(all(large), (std::vector<std::int32_t>{0, 70000, 3}));
  EXPECT_EQ(large.vocabulary(), 70001);
  large.verify();
}

TEST_F(DatasetTest, DamagedTokenFilesAreRefused) {
  { tokens({1, 2, 3, 4}, 10); }
  fs::resize_file(root_ / "t", fs::file_size(root_ / "t") - 2);
  EXPECT_THAT([&] { TokenFile(root_ / "t"); },
              test::throws_error(ErrorCode::kDataLoss, "is cut off"));
  { tokens({1, 2, 3, 4}, 10); }
  {
    std::fstream file(root_ / "t", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-2, std::ios::end);
    file.put(7);
  }
  EXPECT_THAT([&] { TokenFile(root_ / "t").verify(); },
              test::throws_error(ErrorCode::kDataLoss, "do not have the hash in its header"));
  std::ofstream(root_ / "short") << "WEFT";
  EXPECT_THAT([&] { TokenFile(root_ / "short"); },
              test::throws_error(ErrorCode::kDataLoss, "is too short to be a token file"));
  EXPECT_THAT([&] { TokenFile(root_ / "absent"); },
              test::throws_error(ErrorCode::kNotFound, "cannot read"));
}

TEST_F(DatasetTest, WindowsAreAFunctionOfSeedStepAndRow) {
  std::vector<std::int32_t> ids(1000);
  for (int i = 0; i < 1000; ++i) ids[i] = i;
  const TokenFile file = tokens(ids, 1000);
  const TokenWindows a(file, 16, 1);
  const TokenWindows b(file, 16, 1);
  const TokenWindows other_seed(file, 16, 2);
  std::set<std::size_t> offsets;
  int differ = 0;
  for (int step = 0; step < 20; ++step)
    for (int row = 0; row < 20; ++row) {
      const std::size_t offset = a.training_offset(step, row);
      EXPECT_EQ(offset, b.training_offset(step, row));
      EXPECT_LE(offset + 17, 1000u);
      differ += offset != other_seed.training_offset(step, row);
      offsets.insert(offset);
    }
  EXPECT_GT(offsets.size(), 250u);
  EXPECT_GT(differ, 380);
  std::vector<std::int32_t> inputs(16), targets(16);
  a.read(100, inputs, targets);
  EXPECT_EQ(inputs.front(), 100);
  EXPECT_EQ(targets.front(), 101);
  EXPECT_EQ(targets.back(), 116);
}

TEST_F(DatasetTest, ValidationWindowsAreDistinctAndAnyFirstFewAreSpreadOut) {
  const TokenFile file = tokens(std::vector<std::int32_t>(1601, 1), 2);
  const TokenWindows windows(file, 16, 1);
  EXPECT_EQ(windows.num_disjoint_windows(), 100);
  std::set<std::size_t> offsets;
  for (int row = 0; row < 100; ++row) offsets.insert(windows.validation_offset(row));
  EXPECT_EQ(offsets.size(), 100u);
  EXPECT_EQ(*offsets.rbegin(), 99u * 16);
  EXPECT_EQ(windows.validation_offset(100), windows.validation_offset(0));
  std::set<std::size_t> quarters;
  for (int row = 0; row < 8; ++row) quarters.insert(windows.validation_offset(row) / 400);
  EXPECT_EQ(quarters.size(), 4u);
  EXPECT_THAT([&] { TokenWindows(file, 1601, 1); },
              test::throws_error(ErrorCode::kInvalidArgument, "has no window of 1601 tokens"));
}

TEST_F(DatasetTest, UnigramLossIsTheEntropyOfTheCounts) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 30000; ++i) ids.push_back(i % 4 == 0 ? 1 : 0);
  const double entropy = -(0.75 * std::log(0.75) + 0.25 * std::log(0.25));
  EXPECT_NEAR(unigram_loss(tokens(ids, 2), tokens(ids, 2, "v")), entropy, 1e-4);
}

TEST_F(DatasetTest, PreparedOnceThenFoundInTheCache) {
  const TextDataConfig wanted = config(some_text());
  const TextDataset made = TextDataset::prepare(wanted);
  EXPECT_GT(made.train.size(), 8 * made.validation.size());
  EXPECT_GT(made.unigram_loss, 1.0);
  EXPECT_LT(made.unigram_loss, std::log(70.0));
  EXPECT_EQ(made.tokenizer->vocabulary_size(), made.train.vocabulary());
  const auto written = fs::last_write_time(made.folder / "train.tokens");
  const TextDataset found = TextDataset::prepare(wanted);
  EXPECT_EQ(found.folder, made.folder);
  EXPECT_EQ(found.train.sha256(), made.train.sha256());
  EXPECT_EQ(fs::last_write_time(found.folder / "train.tokens"), written);
}

TEST_F(DatasetTest, AChangeOfTextOrOptionsIsAnotherDataset) {
  const fs::path text = some_text();
  TextDataConfig wanted = config(text);
  const fs::path first = TextDataset::prepare(wanted).folder;
  wanted.vocabulary = 75;
  EXPECT_NE(TextDataset::prepare(wanted).folder, first);
  wanted.vocabulary = 70;
  std::ofstream(text, std::ios::app) << "one more line\n";
  EXPECT_NE(TextDataset::prepare(wanted).folder, first);
}

TEST_F(DatasetTest, ADamagedCacheIsMadeAgain) {
  const TextDataConfig wanted = config(some_text());
  std::string hash;
  fs::path folder;
  {
    const TextDataset made = TextDataset::prepare(wanted);
    hash = made.train.sha256();
    folder = made.folder;
  }
  fs::resize_file(folder / "train.tokens", 100);
  EXPECT_THAT(
      [&] { TextDataset::open(folder); },
      test::throws_error(ErrorCode::kDataLoss, "train.tokens is not a token file, or is cut off"));
  EXPECT_EQ(TextDataset::prepare(wanted).train.sha256(), hash);
  std::ofstream(folder / "tokenizer.model") << "x";
  EXPECT_EQ(TextDataset::prepare(wanted).train.sha256(), hash);
  std::ifstream in(folder / "dataset.json");
  nlohmann::json description = nlohmann::json::parse(in);
  description["unigram_loss"] = "a word";
  std::ofstream(folder / "dataset.json") << description;
  EXPECT_EQ(TextDataset::prepare(wanted).train.sha256(), hash);
}

TEST_F(DatasetTest, AFailedRenameIsReportedWithItsReason) {
  const TextDataConfig wanted = config(some_text());
  const fs::path folder = TextDataset::prepare(wanted).folder;
  fs::remove_all(folder);
  fs::create_symlink("absent", folder);  // a folder cannot replace it
  const Error error = test::error_of([&] { TextDataset::prepare(wanted); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(),
              ::testing::AllOf(::testing::HasSubstr("cannot write to the cache " + wanted.cache),
                               ::testing::HasSubstr("Not a directory"),
                               ::testing::HasSubstr("{cache: FOLDER}")));
  EXPECT_EQ(std::distance(fs::directory_iterator(wanted.cache), {}), 1) << "only the link is left";
}

TEST_F(DatasetTest, ATokenFileThatCannotBeWrittenIsReportedWithItsReason) {
  fs::create_directories(root_ / "folder" / "in the way");
  const std::vector<std::int32_t> ids = {1, 2};
  const Error error = test::error_of([&] { TokenFile::write(root_ / "folder", ids, 10); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), ::testing::HasSubstr((root_ / "folder").string()));
}

TEST_F(DatasetTest, ACacheThatAnotherUserMayHaveMadeIsRefused) {
  TextDataConfig described = config(some_text());
  const fs::path folder = TextDataset::prepare(described).folder;
  fs::create_directory(root_ / "open");
  fs::permissions(root_ / "open", fs::perms(0777));
  fs::create_directory_symlink(root_ / "cache", root_ / "open" / "cache");
  described.cache = root_ / "open" / "cache";
  try {
    (void)TextDataset::prepare(described);
    ADD_FAILURE() << "another user could have made the link";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  }
  if (::geteuid() != 0) return;  // only root can give files away
  described.cache = root_ / "cache";
  for (const fs::path& path : {root_ / "cache", folder, folder / "train.tokens"}) {
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    try {
      (void)TextDataset::prepare(described);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), ::testing::AllOf(::testing::HasSubstr("belongs to another user"),
                                                    ::testing::HasSubstr("{cache: FOLDER}")));
    }
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(TextDataset::prepare(described).folder, folder);
}

TEST_F(DatasetTest, TheDataSectionIsReadStrictly) {
  const auto parse = [](const std::string& yaml) {
    const auto document = ConfigDocument::parse(yaml, "c.yaml");
    return parse_text_data(document.root());
  };
  EXPECT_EQ(parse("{}"), TextDataConfig{});
  const fs::path text = some_text();
  const TextDataConfig config =
      parse("{text: " + text.string() + ", tokenizer: bytes, validation_fraction: 0.2}");
  EXPECT_EQ(config.text, text.string());
  EXPECT_EQ(config.vocabulary, 256);
  const auto message = [&](const std::string& yaml) {
    return test::error_message(ErrorCode::kInvalidConfig, [&] { parse(yaml); });
  };
  EXPECT_THAT(message("vocabluary: 500"), ::testing::HasSubstr("vocabulary"));
  EXPECT_THAT(message("text: no/such.txt"), ::testing::HasSubstr("c.yaml:1:"));
  EXPECT_THAT(message("{tokenizer: bytes, vocabulary: 300}"),
              ::testing::HasSubstr("leave `vocabulary` out"));
}

TEST_F(DatasetTest, ATextOfOneLineIsTrainedOnAndPartlyHeldOut) {
  std::string text = plain_lines(400);
  std::ranges::replace(text, '\n', ' ');
  std::ofstream(root_ / "one_line.txt") << text;
  const TextDataset made = TextDataset::prepare(config(root_ / "one_line.txt"));
  EXPECT_GT(made.validation.size(), 100u);
  EXPECT_EQ(made.tokenizer->decode(all(made.train)).size() +
                made.tokenizer->decode(all(made.validation)).size(),
            text.size());
}

TEST_F(DatasetTest, ACharacterThatTokensCannotGiveBackIsRefusedWithItsPosition) {
  std::ofstream(root_ / "noncharacter.txt") << plain_lines(200) << "x\xef\xb7\x90y\n"
                                            << plain_lines(200);
  const auto at = plain_lines(200).size() + 1;
  EXPECT_THAT([&] { TextDataset::prepare(config(root_ / "noncharacter.txt")); },
              test::throws_error(ErrorCode::kInvalidArgument, "noncharacter.txt",
                                 "byte " + std::to_string(at), "tokenizer: bytes"));
  EXPECT_TRUE(fs::is_empty(root_ / "cache"));
}

TEST_F(DatasetTest, ATextThatIsTooShortIsRefused) {
  std::ofstream(root_ / "short.txt") << "ab\n";
  TextDataConfig wanted = config(root_ / "short.txt");
  wanted.tokenizer = TextDataConfig::TokenizerKind::kBytes;
  EXPECT_THAT([&] { TextDataset::prepare(wanted); },
              test::throws_error(ErrorCode::kInvalidArgument, "too short to train on"));
}

TEST_F(DatasetTest, HeldOutTokensAreNotTrainedOn) {
  std::ofstream out(root_ / "numbers.txt");
  for (int i = 0; i < 3000; ++i) out << "n" << i << "\n";
  out.close();
  TextDataConfig wanted = config(root_ / "numbers.txt");
  wanted.tokenizer = TextDataConfig::TokenizerKind::kBytes;
  const TextDataset made = TextDataset::prepare(wanted);
  const std::string train = "\n" + made.tokenizer->decode(all(made.train));
  const std::string validation = made.tokenizer->decode(all(made.validation));
  for (std::size_t at = 0; at < validation.size(); at = validation.find('\n', at) + 1) {
    const std::string line = "\n" + validation.substr(at, validation.find('\n', at) - at + 1);
    ASSERT_EQ(train.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace weft::apps
