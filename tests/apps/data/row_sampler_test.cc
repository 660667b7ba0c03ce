#include "apps/data/row_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "core/config/config_document.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChosenRowsTest : public ::testing::Test {
 protected:
  static RowSampler sampler(const SubsetConfig& subset, std::size_t rows = 10,
                            const std::string& digest = "d1", std::uint64_t key = 1) {
    return RowSampler(subset, rows, digest, "the pictures of this run", key);
  }
  static std::set<std::size_t> drawn(const RowSampler& sampler) {
    std::set<std::size_t> rows;
    for (int step = 1; step <= 50; ++step)
      for (int row = 0; row < 8; ++row) rows.insert(sampler.draw(step, row));
    return rows;
  }
  Error refusal(std::size_t rows = 10, const std::string& digest = "d1") const {
    return test::error_of([&] { sampler(chosen_, rows, digest); });
  }
  void write(std::vector<std::uint32_t> rows) const { ChosenRows::write(folder_, rows, 10, "d1"); }

  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path() / "chosen";
  const SubsetConfig chosen_{.folder = folder_.string()};
};

TEST_F(ChosenRowsTest, OnlyChosenRowsAreDrawnAndEachOfThem) {
  write({1, 2, 9});
  const RowSampler rows = sampler(chosen_);
  EXPECT_EQ(rows.size(), 3u);
  EXPECT_THAT(drawn(rows), ElementsAre(1, 2, 9));
  EXPECT_EQ(fs::file_size(folder_ / "points.u32"), 12u);
  EXPECT_EQ(rows.draw(3, 4), sampler(chosen_).draw(3, 4));
  EXPECT_EQ(drawn(sampler({})).size(), 10u);
  const std::string digest = rows.subset_digest();
  write({1, 2, 8});
  EXPECT_NE(sampler(chosen_).subset_digest(), digest);
}

TEST_F(ChosenRowsTest, ASubsetOfOtherDataIsRefusedByItsDigest) {
  write({1, 2, 9});
  const Error other = refusal(10, "d2");
  EXPECT_EQ(other.code(), ErrorCode::kIncompatible);
  EXPECT_THAT(
      other.message(),
      AllOf(HasSubstr(folder_.string()), HasSubstr("digest d1..."), HasSubstr("digest d2..."),
            HasSubstr("than the pictures of this run"), HasSubstr("choose from these data")));
  EXPECT_THAT(refusal(11).message(), HasSubstr("(10 rows"));
}

TEST_F(ChosenRowsTest, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_.string()) << "a file";
  const Error error = test::error_of([&] { write({1, 2}); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), AllOf(HasSubstr(folder_.string()), HasSubstr("another folder")));
}

TEST_F(ChosenRowsTest, DamagedFilesAreNamed) {
  EXPECT_EQ(refusal().code(), ErrorCode::kNotFound);
  const auto damage = [&](std::vector<std::uint32_t> rows) {
    write(std::move(rows));
    const Error error = refusal();
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_THAT(error.message(), HasSubstr("points.u32"));
    return error.message();
  };
  EXPECT_THAT(damage({}), HasSubstr("four for each of 0 rows"));
  EXPECT_THAT(damage({1, 10}), HasSubstr("row 10 at place 1 is not below 10"));
  EXPECT_THAT(damage({4, 4}), HasSubstr("does not ascend"));
  write({1, 2});
  fs::resize_file(folder_ / "points.u32", 7);
  EXPECT_THAT(refusal().message(), HasSubstr("has 7 bytes"));
  write({1, 2});
  std::ofstream(folder_ / "subset.json") << R"({"count": 2, "of": -1})";
  EXPECT_THAT(refusal().message(), AllOf(HasSubstr("subset.json is damaged"), HasSubstr("again")));
}

TEST(RandomRows, HaveTheirNumberAndLieInEachOther) {
  const auto few = random_rows(1000, 100, 7), many = random_rows(1000, 300, 7);
  EXPECT_EQ(few.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(many));
  EXPECT_TRUE(std::ranges::includes(many, few));
  EXPECT_NE(few, random_rows(1000, 100, 8));
  std::size_t low = std::ranges::count_if(many, [](std::uint32_t row) { return row < 500; });
  EXPECT_NEAR(low, 150, 50);
  const RowSampler sampler({.random_fraction = 0.1, .seed = 7}, 1000, "", "", 3);
  EXPECT_EQ(sampler.size(), 100u);
  for (int step = 0; step < 20; ++step)
    EXPECT_TRUE(std::ranges::binary_search(few, sampler.draw(step, 5)));
}

TEST(SubsetConfig, IsAFolderOrARandomPart) {
  const test::ScratchFolder scratch;
  ChosenRows::write(scratch.path() / "chosen", std::vector<std::uint32_t>{1}, 2, "d");
  const auto read = [&](const std::string& yaml) {
    const auto document = ConfigDocument::parse(yaml, (scratch.path() / "c.yaml").string());
    const SubsetConfig config = read_subset(document.root());
    document.finish();
    return config;
  };
  EXPECT_TRUE(read("{}").is_all());
  EXPECT_EQ(read("subset: chosen").folder, (scratch.path() / "chosen").string());
  EXPECT_EQ(read("subset: {random: 0.25, seed: 3}"),
            (SubsetConfig{.random_fraction = 0.25, .seed = 3}));
  const auto refusal = [&](const std::string& yaml) {
    return test::error_of([&] { read(yaml); }).message();
  };
  EXPECT_THAT(refusal("subset: nowhere"),
              AllOf(HasSubstr("c.yaml:1:9: data.subset: there is no"), HasSubstr("subset.json")));
  EXPECT_THAT(refusal("subset: {random: 2}"), HasSubstr("random"));
  EXPECT_THAT(refusal("subset: {sed: 2, random: 0.5}"), HasSubstr("did you mean 'seed'"));
}

}  // namespace
}  // namespace weft::apps
