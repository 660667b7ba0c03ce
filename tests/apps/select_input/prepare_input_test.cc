#include "apps/select_input/prepare_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

#include "apps/classification/image_dataset.h"
#include "apps/data/text_dataset.h"
#include "apps/data/token_windows.h"
#include "apps/run_files/safetensors.h"
#include "apps/select_input/row_contents.h"
#include "apps/select_input/row_origin.h"
#include "apps/selection/npy_file.h"
#include "apps/selection/npy_writer.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PrepareInputTest : public ::testing::Test {
 protected:
  PreparedInput prepare(const SelectInput& input, const std::string& folder = "out") {
    return prepare_input(input, root_ / folder, device_);
  }
  Error refusal(const SelectInput& input) {
    Error error = test::error_of([&] { prepare(input, "refused"); });
    EXPECT_FALSE(fs::exists(root_ / "refused/input.json"));
    return error;
  }
  std::string write_npy(const std::string& name, std::size_t columns,
                        const std::vector<float>& values) const {
    NpyWriter file(root_ / name, columns);
    file.append(values);
    file.commit();
    return (root_ / name).string();
  }
  void write_text(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << text;
  }
  static std::vector<float> values_of(const fs::path& path) {
    const NpyFile file(path);
    std::vector<float> values(file.rows() * file.columns());
    file.read(0, values);
    return values;
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  /// Returns the cosine of rows `a` and `b` of `vectors`.
  static double cosine(const std::vector<float>& vectors, std::size_t a, std::size_t b,
                       std::size_t width = 64) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double x = vectors[a * width + i], y = vectors[b * width + i];
      ab += x * y;
      aa += x * x;
      bb += y * y;
    }
    return ab / std::sqrt(aa * bb);
  }

  CpuDevice device_;
  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST_F(PrepareInputTest, VectorsOfAFileAreTakenAsTheyAre) {
  const std::vector<float> vectors = {1, 2, 3, 4, 5, 6}, utility = {0, 0.5, 1};
  SelectInput input{.path = write_npy("v.npy", 2, vectors)};
  const PreparedInput flat = prepare(input, "flat");
  EXPECT_EQ(flat.kind, InputKind::kVectors);
  EXPECT_EQ(flat.rows, 3U);
  EXPECT_EQ(flat.width, 2U);
  EXPECT_TRUE(flat.has_uniform_utility);
  EXPECT_FALSE(fs::exists(flat.utility()));
  EXPECT_TRUE(fs::is_symlink(flat.vectors()));
  EXPECT_EQ(values_of(flat.vectors()), vectors);

  input.utility = write_npy("u.npy", 1, utility);
  const PreparedInput weighted = prepare(input, "weighted");
  EXPECT_FALSE(weighted.has_uniform_utility);
  EXPECT_EQ(values_of(weighted.utility()), utility);
  EXPECT_NE(weighted.digest, flat.digest);

  write_safetensors(root_ / "v.safetensors", std::vector<TensorView>{{"embedding", {3, 2}, vectors},
                                                                     {"margin", {3}, utility}});
  const SelectInput tensors{
      .path = (root_ / "v.safetensors").string(), .vector = "embedding", .utility = "margin"};
  for (const SelectInput& of : {input, tensors}) {
    const std::optional<InputSize> size = size_of_input(of);
    ASSERT_TRUE(size);
    EXPECT_EQ(size->rows, 3U) << of.path;
    EXPECT_EQ(size->width, 2U) << of.path;
  }
  EXPECT_EQ(size_of_input({.path = "kjv"}), std::nullopt) << "counted as it is read";
  const PreparedInput same = prepare(tensors, "tensors");
  EXPECT_EQ(values_of(same.vectors()), vectors);
  EXPECT_EQ(values_of(same.utility()), utility);
  EXPECT_EQ(same.digest, weighted.digest);
}

TEST_F(PrepareInputTest, BadVectorsAreRefusedWithFileRowAndRemedy) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto message = [&](const SelectInput& input) { return refusal(input).message(); };
  EXPECT_THAT(
      message({.path = write_npy("nan.npy", 2, {1, 2, 3, nan, 5, 6})}),
      AllOf(HasSubstr("nan.npy, row 1: number 1 is no number"), HasSubstr("leave the row")));
  EXPECT_THAT(message({.path = write_npy("zero.npy", 2, {1, 2, 3, 4, 0, 0})}),
              AllOf(HasSubstr("zero.npy, row 2: the vector is zero"), HasSubstr("remove the row")));
  EXPECT_THAT(message({.path = write_npy("flat.npy", 1, {1, 2})}),
              HasSubstr("2 rows of 1 numbers; vectors to choose from are rows of at least 2"));
  const std::string sound = write_npy("v.npy", 2, {1, 2, 3, 4});
  EXPECT_THAT(message({.path = sound, .utility = write_npy("u.npy", 1, {1, 0, 1})}),
              AllOf(HasSubstr("u.npy has 3 rows of 1 for the 2 rows of"), HasSubstr("v.npy")));
  EXPECT_THAT(
      message({.path = sound, .utility = write_npy("u.npy", 1, {1, 2})}),
      AllOf(HasSubstr("u.npy, row 1: the utility is 2"), HasSubstr("scale all utilities to that")));
  EXPECT_THAT(message({.path = sound, .utility = "margin"}), HasSubstr("'margin' is neither"));
  fs::resize_file(sound, fs::file_size(sound) - 3);
  EXPECT_THAT(message({.path = sound}), AllOf(HasSubstr("v.npy"), HasSubstr("save it again")));
  EXPECT_THAT([&] { size_of_input({.path = sound}); },
              test::throws_error(ErrorCode::kDataLoss, "save it again"));

  const std::vector<float> six = {1, 2, 3, 4, 0, 0};
  write_safetensors(root_ / "v.safetensors",
                    std::vector<TensorView>{{"a", {3, 2}, six}, {"b", {6}, six}});
  SelectInput tensors{.path = (root_ / "v.safetensors").string()};
  EXPECT_THAT(message(tensors), HasSubstr("say with input.vector which of them"));
  tensors.vector = "c";
  EXPECT_THAT(message(tensors), HasSubstr("no tensor 'c': let input.vector be one of its tensors, "
                                          "which are a, b"));
  tensors.vector = "b";
  EXPECT_THAT(message(tensors), HasSubstr("tensor b has 1 dimensions"));
  tensors.vector = "a";
  EXPECT_THAT(message(tensors), HasSubstr("tensor a, row 2: the vector is zero"));
  write_text("cut.safetensors", "\x40");
  EXPECT_THAT(message({.path = (root_ / "cut.safetensors").string()}),
              HasSubstr("cut.safetensors"));
}

TEST_F(PrepareInputTest, PicturesWithLabelsGetFeaturesMarginsAndTheRowsOfTraining) {
  test::write_made_up_dataset(root_ / "idx", 600, 20);
  SelectInput input{.path = "fashion-mnist", .images = default_image_data()};
  input.images->files = (root_ / "idx").string();
  input.coarse = {.hidden = {8}, .steps = 60, .batch = 16, .learning_rate = 1e-2};
  const PreparedInput made = prepare(input);
  const ImageDataset data = ImageDataset::load(*input.images);
  EXPECT_EQ(made.rows, data.train.size());
  EXPECT_EQ(made.width, 8U);
  EXPECT_EQ(made.data_digest, data.digest);
  EXPECT_THAT(made.data_section, HasSubstr("dataset: fashion-mnist"));
  const std::vector<float> utility = values_of(made.utility());
  ASSERT_EQ(utility.size(), made.rows);
  EXPECT_EQ(std::ranges::min(utility), 0);
  EXPECT_LE(std::ranges::max(utility), 1);
  RowOriginReader places(made.places());
  const std::uint32_t picture = data.train_pictures[500];
  EXPECT_EQ(places.at(500).offset, picture);
  EXPECT_EQ(places.at(500).label, data.classes[test::made_up_label(picture)]);
  const Picture shown = pictures_of_rows(input, made, {500}, 84).at(500);
  EXPECT_EQ(shown.width(), 84);
  EXPECT_EQ(shown.at(3, 0).red, test::made_up_value(picture, 1, test::made_up_label(picture)));

  // Prepared again from the start: the same bits.
  const PreparedInput again = prepare(input, "again");
  EXPECT_EQ(bytes_of(again.vectors()), bytes_of(made.vectors()));
  EXPECT_EQ(again.digest, made.digest);
  input.utility = "flat";
  EXPECT_TRUE(prepare(input, "flat").has_uniform_utility);
}

TEST_F(PrepareInputTest, PicturesOfAFolderAreKnownByTheirPaths) {
  test::write_made_up_folder(root_ / "labels", 30);
  SelectInput input{.path = (root_ / "labels").string()};
  input.coarse = {.hidden = {4}, .fraction = 0.5, .steps = 20, .batch = 4};
  const PreparedInput labelled = prepare(input, "labelled");
  EXPECT_EQ(labelled.width, 4U);
  RowOriginReader places(labelled.places());
  const RowOrigin last = places.at(labelled.rows - 1);
  EXPECT_EQ(last.label, "red");
  EXPECT_THAT(last.path, HasSubstr("labels/red/p10"));

  // Unlabelled pictures: pixels less their mean, multiplied by a matrix.
  fs::rename(root_ / "labels/red", root_ / "plain");
  fs::rename(root_ / "labels/blue/p1000.png", root_ / "plain/blue.png");
  input.path = (root_ / "plain").string();
  const PreparedInput plain = prepare(input, "pixels");
  EXPECT_EQ(plain.rows, 31U);
  EXPECT_EQ(plain.width, 64U);
  EXPECT_TRUE(plain.has_uniform_utility);
  EXPECT_EQ(RowOriginReader(plain.places()).at(0).path, (root_ / "plain/blue.png").string());
  const std::vector<float> vectors = values_of(plain.vectors());
  EXPECT_GT(cosine(vectors, 1, 2), 0.9);
  EXPECT_LT(cosine(vectors, 0, 30), 0);
  EXPECT_FALSE(fs::exists(root_ / "pixels/projected.npy"));

  input.utility = "margin";
  EXPECT_THAT(refusal(input).message(), HasSubstr("have no labels, and so no margin"));
  input.utility = "";
  write_text("plain/x.jpg", "x");
  EXPECT_THAT(refusal(input).message(),
              AllOf(HasSubstr("x.jpg is not a PNG file"), HasSubstr("convert it")));
}

TEST_F(PrepareInputTest, EqualPicturesWithoutLabelsAreNotRefused) {
  fs::create_directories(root_ / "equal");
  for (const char* name : {"a.png", "b.png"})
    write_png(Picture(4, 4, {9, 9, 9}), root_ / "equal" / name);
  const PreparedInput made = prepare({.path = (root_ / "equal").string()});
  EXPECT_NEAR(cosine(values_of(made.vectors()), 0, 1), 1, 1e-6);
}

TEST_F(PrepareInputTest, TextsAreCutIntoPartsWithPlaces) {
  const std::string alike = "the scheduler puts a task of the queue onto a processor that is idle";
  write_text("docs/b/two.txt", "=== --- ===\r\n");
  write_text("docs/a.txt", alike + " now\n" + alike + " then\n");
  write_text("docs/c.txt", "birds sing in the old garden every morning before the rain comes");
  test::write_gzip(root_ / "docs/d.txt.gz", [&] {
    const auto bytes = std::as_bytes(std::span(alike));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }());
  write_text("docs/.hidden", "x");
  const SelectInput input{.path = (root_ / "docs").string(), .words = 15};
  const PreparedInput made = prepare(input);
  EXPECT_EQ(made.rows, 5U);
  EXPECT_EQ(made.width, 64U);
  EXPECT_TRUE(made.has_uniform_utility);
  RowOriginReader places(made.places());
  EXPECT_EQ(places.at(0).path, (root_ / "docs/a.txt").string());
  EXPECT_EQ(places.at(1).offset, alike.size() + 5);
  EXPECT_EQ(places.at(1).length, alike.size() + 5);
  const std::vector<float> vectors = values_of(made.vectors());
  EXPECT_GT(cosine(vectors, 0, 1), 0.6);
  EXPECT_GT(cosine(vectors, 0, 4), 0.6);
  EXPECT_LT(cosine(vectors, 0, 3), 0.5);
  EXPECT_LT(cosine(vectors, 0, 2), 0.5);  // a text without words is accepted
  EXPECT_EQ(texts_of_rows(input, made, {1, 4}).at(1), alike + " then");
  EXPECT_EQ(texts_of_rows(input, made, {1, 4}).at(4), alike);

  write_text("docs/e.txt", std::string("a\0b", 3));
  EXPECT_THAT(
      refusal(input).message(),
      AllOf(HasSubstr("e.txt is not a text in UTF-8: byte 1 is zero"), HasSubstr("leave it out")));
  fs::remove(root_ / "docs/e.txt");
  fs::resize_file(root_ / "docs/d.txt.gz", 30);
  EXPECT_THAT(refusal(input).message(), HasSubstr("d.txt.gz is damaged or cut off"));
  SelectInput margin = input;
  margin.utility = "margin";
  EXPECT_THAT(refusal(margin).message(), HasSubstr("texts have no utility 'margin'"));
}

TEST_F(PrepareInputTest, PiecesOfATextAreThoseThatAGptTrainsOn) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "line " + std::to_string(i * i) + " speaks of number " + std::to_string(i % 10) + "\n";
  write_text("texts/a.txt", text);
  write_text("texts/b.txt", "another file\n");
  SelectInput input{.path = (root_ / "texts").string(), .pieces = TextPieces{.sequence = 32}};
  input.pieces->data.tokenizer = TextDataConfig::TokenizerKind::kBytes;
  input.pieces->data.vocabulary = 256;
  input.pieces->data.cache = (root_ / "cache").string();
  const PreparedInput made = prepare(input);

  TextDataConfig data = input.pieces->data;
  data.text = input.path;
  const TextDataset dataset = TextDataset::prepare(data);
  const TokenWindows windows(dataset.train, 32, 7);
  EXPECT_EQ(made.data_digest, windows.windows_digest());
  EXPECT_EQ(made.rows, static_cast<std::uint64_t>(windows.num_disjoint_windows()));
  EXPECT_THAT(made.data_section, HasSubstr("tokenizer: bytes"));
  EXPECT_EQ(texts_of_rows(input, made, {0}).at(0), text.substr(0, 32));
  EXPECT_EQ(RowOriginReader(made.places()).at(2), (RowOrigin{input.path, 64, 32}));
}

TEST_F(PrepareInputTest, APreparedInputIsReused) {
  write_text("docs/a.txt", "some words to begin with");
  write_text("docs/b.txt", "and some others");
  SelectInput input{.path = (root_ / "docs").string()};
  EXPECT_FALSE(prepare(input).was_reused);
  const PreparedInput found = prepare(input);
  EXPECT_TRUE(found.was_reused);
  EXPECT_EQ(found.rows, 2U);
  EXPECT_THAT(found.seconds, ::testing::Contains(::testing::Key("vectors")));
  EXPECT_EQ(read_prepared_input(root_ / "out")->digest, found.digest);

  input.words = 2;  // changed setting
  EXPECT_EQ(prepare(input).rows, 5U);
  input.width = 128;
  EXPECT_EQ(prepare(input).width, 128U);
  write_text("docs/b.txt", "and some others once again");  // changed file
  EXPECT_EQ(prepare(input).rows, 6U);
  fs::resize_file(root_ / "out/vectors.npy", 200);  // damaged file
  EXPECT_FALSE(prepare(input).was_reused);
  EXPECT_TRUE(prepare(input).was_reused);

  // An interrupted preparation leaves neither the new input nor the old one.
  write_text("docs/b.txt", "new");
  std::stop_source stop;
  const auto stopped = [&] {
    prepare_input(
        input, root_ / "out", device_,
        [&](const PrepareStage& stage) {
          if (stage.what == "vectors") stop.request_stop();
        },
        stop.get_token());
  };
  EXPECT_EQ(test::error_of(stopped).code(), ErrorCode::kCancelled);
  EXPECT_FALSE(read_prepared_input(root_ / "out").has_value());
}

TEST_F(PrepareInputTest, InputsThatAreNoneSayWhatCanBeGiven) {
  EXPECT_THAT(refusal({.path = (root_ / "none").string()}).message(),
              AllOf(HasSubstr("there is no file or folder"), HasSubstr("fashion-mnist, kjv")));
  fs::create_directories(root_ / "empty/.git");
  EXPECT_THAT(refusal({.path = (root_ / "empty").string()}).message(),
              AllOf(HasSubstr("empty has no files"),
                    HasSubstr("put texts, PNG pictures or .parquet files there")));
  write_text("table.csv", "1,2\n");
  EXPECT_THAT(refusal({.path = (root_ / "table.csv").string()}).message(),
              HasSubstr("give vectors as .npy, .safetensors or .parquet"));
  SelectInput absent{.path = "fashion-mnist", .images = default_image_data()};
  absent.images->files = (root_ / "none").string();
  EXPECT_THAT(refusal(absent).message(), HasSubstr("apt-get install dataset-fashion-mnist"));
  write_text("blank.txt", "\n \n");
  EXPECT_THAT(refusal({.path = (root_ / "blank.txt").string()}).message(),
              HasSubstr("blank.txt has no rows"));
}

TEST_F(PrepareInputTest, NamesInUpperCaseAndNumbersOfDoublePrecisionAreRead) {
  EXPECT_EQ(prepare({.path = write_npy("UPPER.NPY", 2, {1, 2, 3, 4})}, "upper").rows, 2U);
  const std::string header = R"({"x":{"dtype":"F64","shape":[2,2],"data_offsets":[0,32]}})";
  const std::uint64_t size = header.size();
  const double values[] = {1, 0.5, 0.25, -3};
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values), sizeof values);
  write_text("f64.safetensors", bytes);
  const PreparedInput made = prepare({.path = (root_ / "f64.safetensors").string()}, "f64");
  EXPECT_EQ(values_of(made.vectors()), (std::vector<float>{1, 0.5F, 0.25F, -3}));
}

TEST_F(PrepareInputTest, FilesWithoutVectorsSayWhatToSave) {
  const std::string header = "{}      ";
  const std::uint64_t size = header.size();
  write_text("none.safetensors",
             std::string(reinterpret_cast<const char*>(&size), sizeof size) + header);
  EXPECT_THAT(refusal({.path = (root_ / "none.safetensors").string()}).message(),
              HasSubstr("none.safetensors has no tensors"));
  const std::string fields =
      "{'descr': [('id', '<i8'), ('v', '<f4', (2,))], 'fortran_order': False, 'shape': (1,), }";
  std::string npy("\x93NUMPY\x01\x00", 8);
  npy += static_cast<char>(fields.size());
  npy += '\0';
  npy += fields + std::string(16, '\0');
  write_text("fields.npy", npy);
  EXPECT_THAT(refusal({.path = (root_ / "fields.npy").string()}).message(),
              AllOf(HasSubstr("structured array"), HasSubstr("array['vector']")));
}

}  // namespace
}  // namespace weft::apps
