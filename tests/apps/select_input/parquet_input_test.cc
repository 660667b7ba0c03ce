// Tests Parquet files as users' engines write them: prepared, or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/parquet/parquet.h"
#include "apps/select_input/prepare_input.h"
#include "apps/select_input/row_origin.h"
#include "apps/selection/npy_file.h"
#include "apps/selection/npy_writer.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/parquet_files.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ParquetInputTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::ScratchFolder>();
    problem_ = parquet_problem();
    if (problem_.empty()) problem_ = test::write_parquet_files(folder_->path());
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    if (!problem_.empty()) GTEST_SKIP() << problem_;
  }
  static std::string file(const std::string& name) { return (folder_->path() / name).string(); }

  PreparedInput prepare(const SelectInput& input) {
    return prepare_input(input, out_.path() / std::to_string(prepared_++), device_);
  }
  std::string refusal(const SelectInput& input) {
    return test::error_of([&] { prepare(input); }).message();
  }
  static std::vector<float> values_of(const fs::path& path) {
    const NpyFile read(path);
    std::vector<float> values(read.rows() * read.columns());
    read.read(0, values);
    return values;
  }
  static std::vector<std::int64_t> integers_of(const fs::path& path) {
    const NpyFile read(path, NpyFile::Elements::kIntegers);
    std::vector<std::int64_t> values(read.rows() * read.columns());
    read.read_integers(0, values);
    return values;
  }

  static std::unique_ptr<test::ScratchFolder> folder_;
  static std::string problem_;
  CpuDevice device_;
  const test::ScratchFolder out_;
  int prepared_ = 0;
};
std::unique_ptr<test::ScratchFolder> ParquetInputTest::folder_;
std::string ParquetInputTest::problem_;

TEST(ParquetLibrary, AMissingLibraryIsReportedWithHowToInstallIt) {
  if (parquet_problem().empty()) return;
  EXPECT_THAT(test::error_of([] { parquet_library(); }).message(),
              AllOf(HasSubstr("Parquet files cannot be read here"),
                    HasSubstr("run apps/install_arrow"), HasSubstr(".npy or .safetensors")));
}

TEST_F(ParquetInputTest, PartsAreTheSameAsOneArrayAndRowsHaveIds) {
  const PreparedInput parts = prepare({.path = file("docs"), .utility = "margin"});
  EXPECT_EQ(parts.rows, 5000U);
  EXPECT_EQ(parts.width, 2U);
  EXPECT_TRUE(parts.has_ids);

  const auto write = [&](const char* name, std::size_t columns, const auto& value) {
    NpyWriter writer(out_.path() / name, columns);
    std::vector<float> values;
    for (int i = 0; i < 5000; ++i)
      for (std::size_t k = 0; k < columns; ++k) values.push_back(value(i, k));
    writer.append(values);
    writer.commit();
    return (out_.path() / name).string();
  };
  const std::string vectors = write("v.npy", 2, [](int i, std::size_t k) {
    return k == 0 ? static_cast<float>(i % 7) + 1 : static_cast<float>(i % 5) - 0.5F;
  });
  const std::string utility =
      write("u.npy", 1, [](int i, std::size_t) { return static_cast<float>(i % 11) / 8; });
  EXPECT_EQ(values_of(parts.vectors()), values_of(vectors));
  EXPECT_EQ(values_of(parts.utility()), values_of(utility));
  EXPECT_EQ(prepare({.path = file("docs"), .utility = "flat"}).data_digest,
            prepare({.path = vectors}).data_digest);

  RowOriginReader places(parts.places());
  EXPECT_EQ(places.at(0),
            (RowOrigin{.path = file("docs/part-0.parquet"), .offset = 0, .id = RowId("doc-0")}));
  EXPECT_EQ(places.at(1700),
            (RowOrigin{.path = file("docs/part-2.parquet"), .offset = 0, .id = RowId("doc-1700")}));
  EXPECT_EQ(places.at(4999).offset, 1599U);
  EXPECT_FALSE(fs::exists(parts.folder / "waiting"));
  EXPECT_EQ(size_of_input({.path = file("docs")})->rows, 5000U);
}

TEST_F(ParquetInputTest, NumbersMayBeOfOtherTypes) {
  const SelectInput input{
      .path = file("types.parquet"), .vector = "v", .utility = "u", .id = "key"};
  const PreparedInput made = prepare(input);
  EXPECT_THAT(values_of(made.vectors()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values_of(made.utility()), ElementsAre(0.5, 0.25, 3));
  EXPECT_EQ(RowOriginReader(made.places()).at(1).id, RowId(std::int64_t{-2}));
  // No id column: row numbers are the ids.
  const PreparedInput half = prepare({.path = input.path, .vector = "h"});
  EXPECT_THAT(values_of(half.vectors()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(RowOriginReader(half.places()).at(1).id, RowId(std::int64_t{1}));
}

TEST_F(ParquetInputTest, IdsMayBeEncodedByADictionary) {
  const PreparedInput made = prepare({.path = file("categories.parquet"), .vector = "v"});
  EXPECT_TRUE(made.has_ids);
  RowOriginReader places(made.places());
  EXPECT_EQ(places.at(0).id, RowId("b"));
  EXPECT_EQ(places.at(2).id, RowId("c"));
}

TEST_F(ParquetInputTest, NeighboursBecomeRowsWithSimilaritiesGivenOrMade) {
  const std::vector<std::int64_t> rows = {1, 2, 0, -1, 0, -1, -1, -1};
  const PreparedInput given = prepare({.path = file("sound.parquet"), .neighbours = "edges"});
  EXPECT_TRUE(given.has_neighbours);
  EXPECT_EQ(integers_of(given.neighbours()), rows);
  EXPECT_THAT(values_of(given.similarities()), ElementsAre(0.75, 0.25, 0.75, 0, 0.25, 0, 0, 0));
  const PreparedInput made = prepare({.path = file("sound.parquet"), .neighbours = "near"});
  EXPECT_EQ(integers_of(made.neighbours()), rows);
  const float cosine = values_of(made.similarities())[0];
  EXPECT_NEAR(cosine, 0.70710678, 1.0 / 65535);
  EXPECT_THAT(values_of(made.similarities()), ElementsAre(cosine, 0, cosine, 0, 0, 0, 0, 0));
  // A neighbour graph needs no vectors.
  const PreparedInput graph = prepare({.path = file("graph.parquet"), .neighbours = "edges"});
  EXPECT_EQ(graph.width, 0U);
  EXPECT_EQ(integers_of(graph.neighbours()), rows);
  EXPECT_TRUE(
      prepare_input({.path = file("graph.parquet"), .neighbours = "edges"}, graph.folder, device_)
          .was_reused);
}

TEST_F(ParquetInputTest, BadRowsAreRefusedWithFileRowAndRemedy) {
  struct Case {
    const char* file;
    const char* neighbours;
    std::vector<std::string> says;
  };
  for (const Case& bad : std::vector<Case>{
           {"nan", "", {"nan.parquet, row 2: number 1 is no number", "leave the row out"}},
           {"zero", "", {"zero.parquet, row 1: the vector is zero"}},
           {"lengths",
            "",
            {"lengths.parquet, row 3, column embedding: the vector has 3 numbers, but that of row "
             "0 has 2"}},
           {"twice", "", {"twice.parquet, row 3, id 'b'", "also the id of ", "parquet, row 1;"}},
           {"null", "", {"null.parquet, row 2, column margin: the value is missing (null)"}},
           {"null-in-list", "", {"row 2, column embedding: element 0 of the list is missing"}},
           {"negative", "", {"negative.parquet, row 2, column margin: the utility is -0.5"}},
           {"dangling",
            "near",
            {"dangling.parquet, row 1, id 'b': the neighbour 'x' is the id of no row"}},
           {"itself", "near", {"itself.parquet, row 3, id 'd': the row is its own neighbour"}},
           {"one-sided",
            "near",
            {"one-sided.parquet, row 0, id 'a': the neighbour 'b' is missing", "parquet, row 1)"}},
           {"unequal", "edges", {"similarity to", "differs from the one in that row"}},
           {"listed-twice", "edges", {"row 1, id 'b': the neighbour 'a' comes twice"}},
           {"dissimilar", "edges", {"row 1, column edges: the similarity to 'a' is -0.75"}}}) {
    const std::string message = refusal({.path = file(std::string(bad.file) + ".parquet"),
                                         .utility = "margin",
                                         .neighbours = bad.neighbours});
    for (const std::string& text : bad.says) EXPECT_THAT(message, HasSubstr(text)) << bad.file;
  }
}

TEST_F(ParquetInputTest, FilesThatDoNotFitNameTheColumnsThereAre) {
  const std::string sound = file("sound.parquet");
  EXPECT_THAT(refusal({.path = sound, .utility = "margn"}),
              AllOf(HasSubstr("sound.parquet has no column 'margn': let input.utility be one"),
                    HasSubstr("id (string), embedding (list<element: float>), margin (double)")));
  EXPECT_THAT(refusal({.path = sound, .vector = "margin"}),
              HasSubstr("column margin is of type double, but a vector is a list of float"));
  EXPECT_THAT(refusal({.path = sound, .id = "margin"}), HasSubstr("an id is an integer"));
  EXPECT_THAT(refusal({.path = sound, .neighbours = "margin"}),
              HasSubstr("neighbours are a list of ids, or of structs"));
  EXPECT_THAT(refusal({.path = file("types.parquet")}),
              HasSubstr("more than one column of vectors"));
  EXPECT_THAT(refusal({.path = file("graph.parquet")}), HasSubstr("it has no column of vectors"));
  EXPECT_THAT(refusal({.path = file("unlike")}),
              AllOf(HasSubstr("b.parquet: columns differ from those of "), HasSubstr("a.parquet")));
  EXPECT_THAT(refusal({.path = file("cut.parquet")}),
              AllOf(HasSubstr("cut.parquet is not a Parquet file, or it is truncated or damaged"),
                    HasSubstr("write it again")));
  EXPECT_THAT(refusal({.path = file("no-rows.parquet")}), HasSubstr("has 0 rows"));
  EXPECT_THAT(refusal({.path = file("empty.parquet")}), HasSubstr("has no files"));
  EXPECT_THAT(refusal({.path = sound + ".gone.parquet"}), HasSubstr("there is no file or folder"));
}

}  // namespace
}  // namespace weft::apps
