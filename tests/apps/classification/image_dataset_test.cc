#include "apps/classification/image_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "apps/classification/idx_file.h"
#include "apps/classification/image_folder.h"
#include "core/config/config_document.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageDatasetTest : public ::testing::Test {
 protected:
  ImageDataConfig config() const {
    ImageDataConfig config = default_image_data();
    config.files = (root_ / "idx").string();
    return config;
  }
  Error refusal(const ImageDataConfig& config) const {
    return test::error_of([&] { ImageDataset::load(config); });
  }
  ImageDataConfig folder() const {
    ImageDataConfig config = default_image_data();
    config.dataset = "";
    config.path = (root_ / "pictures").string();
    config.classes = labels_of_folder(config.path);
    config.height = 2;
    config.width = 3;
    config.colours = 3;
    config.test_fraction = 0.2;
    return config;
  }

  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST_F(ImageDatasetTest, SplitsByHashOfTheRowAndKeepsTheOrder) {
  test::write_made_up_dataset(root_ / "idx", 400, 30);
  const ImageDataset data = ImageDataset::load(config());
  EXPECT_EQ(data.train.size() + data.validation.size(), 400u);
  EXPECT_EQ(data.test.size(), 30u);
  EXPECT_NEAR(data.validation.size(), 40, 20);
  std::size_t train = 0, validation = 0;
  for (std::size_t row = 0; row < 400; ++row) {
    const bool out = is_held_out(1, row, 0.1);
    if (!out) {
      ASSERT_EQ(data.train_pictures[train], row);
    }
    const LabelledImages& part = out ? data.validation : data.train;
    std::size_t& at = out ? validation : train;
    ASSERT_EQ(part.labels[at], test::made_up_label(row));
    ASSERT_EQ(part.image(at)[300], test::made_up_value(row, 300, test::made_up_label(row)));
    ++at;
  }
  EXPECT_EQ(data.test.image(0)[0], test::made_up_value(400, 0, test::made_up_label(400)));
  double sum = 0;
  for (const std::uint8_t byte : data.train.values) sum += data.scale(byte);
  EXPECT_NEAR(sum / data.train.values.size(), 0, 1e-5);
  EXPECT_NEAR(data.class_prior_loss(), std::log(10.0), 0.05);
}

TEST_F(ImageDatasetTest, TheDigestNamesPicturesAndSplit) {
  test::write_made_up_dataset(root_ / "idx", 50, 10);
  const std::string digest = ImageDataset::load(config()).digest;
  EXPECT_EQ(ImageDataset::load(config()).digest, digest);
  ImageDataConfig other = config();
  other.seed = 2;
  EXPECT_NE(ImageDataset::load(other).digest, digest);
  test::write_made_up_dataset(root_ / "idx", 51, 10);
  EXPECT_NE(ImageDataset::load(config()).digest, digest);
}

TEST_F(ImageDatasetTest, FilesThatAreMissingOrDoNotFitAreNamedWithTheRemedy) {
  const Error missing = refusal(config());
  EXPECT_EQ(missing.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("train-images-idx3-ubyte.gz"),
                                       HasSubstr("apt-get install dataset-fashion-mnist")));
  test::write_made_up_dataset(root_ / "idx", 20, 10);
  const fs::path labels = root_ / "idx/train-labels-idx1-ubyte.gz";
  test::write_gzip(labels, test::idx_bytes({3}, {1, 2, 3}));
  EXPECT_THAT(refusal(config()).message(),
              AllOf(HasSubstr("has 3 labels for the 20 pictures"), HasSubstr(labels.string())));
  std::vector<std::uint8_t> unknown(20);
  unknown[7] = 10;
  test::write_gzip(labels, test::idx_bytes({20}, unknown));
  EXPECT_THAT(refusal(config()).message(), HasSubstr("unknown label 10 at row 7"));
  test::write_gzip(labels, test::idx_bytes({21}, unknown));
  EXPECT_THAT(refusal(config()).message(), HasSubstr("announces 21 bytes"));
  fs::resize_file(labels, fs::file_size(labels) - 9);
  EXPECT_THAT(refusal(config()).message(), HasSubstr("gzip cannot unpack"));
  test::write_made_up_dataset(root_ / "idx", 20, 10);
  test::write_gzip(root_ / "idx/t10k-images-idx3-ubyte.gz", test::idx_bytes({1, 2, 1}, {0, 0}));
  EXPECT_THAT(refusal(config()).message(),
              AllOf(HasSubstr("t10k-images"), HasSubstr("pictures of 28 x 28")));
  EXPECT_THAT(test::error_of([&] { parse_idx(test::idx_bytes({}, {}), "x"); }).message(),
              HasSubstr("x is not an IDX file"));
}

TEST_F(ImageDatasetTest, AFolderHasALabelForEachSubfolderAndItsPicturesAreScaled) {
  test::write_made_up_folder(root_ / "pictures", 50);
  const ImageDataset data = ImageDataset::load(folder());
  EXPECT_THAT(data.classes, ElementsAre("blue", "red"));
  EXPECT_EQ(data.train.size() + data.validation.size() + data.test.size(), 100u);
  EXPECT_NEAR(data.test.size(), 20, 12);
  EXPECT_EQ(data.train.values_per_image(), 18u);
  for (std::size_t row = 0; row < data.train.size(); ++row)
    EXPECT_EQ(data.train.labels[row], data.train.image(row)[0] > data.train.image(row)[2] ? 1 : 0);
}

TEST(ScaledValues, AreMeansOfTheAreasThatTheyCover) {
  Picture picture(3, 1);
  picture.set(0, 0, {90, 0, 0});
  picture.set(1, 0, {30, 0, 0});
  picture.set(2, 0, {0, 60, 0});
  // half of the middle pixel belongs to each side
  EXPECT_THAT(resample_picture(picture, 1, 2, 3), ElementsAre(70, 0, 0, 10, 40, 0));
  EXPECT_THAT(resample_picture(picture, 2, 1, 1), ElementsAre(24, 24));
  EXPECT_THAT(resample_picture(picture, 1, 6, 1), ElementsAre(27, 27, 9, 9, 35, 35));
}

TEST_F(ImageDatasetTest, UnexpectedFilesInAFolderAreNamed) {
  const auto message = [](const auto& call) {
    return test::error_message(ErrorCode::kInvalidArgument, call);
  };
  EXPECT_EQ(test::error_of([&] { labels_of_folder(root_ / "none"); }).code(), ErrorCode::kNotFound);
  test::write_made_up_folder(root_ / "pictures", 2);
  const ImageDataConfig sound = folder();
  const auto load = [&] { ImageDataset::load(sound); };
  fs::create_directory(root_ / "pictures/zebra");
  EXPECT_THAT(message(load),
              AllOf(HasSubstr("zebra is not among the labels"), HasSubstr("blue, red")));
  EXPECT_THAT(message([&] { ImageDataset::load(folder()); }), HasSubstr("zebra has no pictures"));
  fs::remove(root_ / "pictures/zebra");
  std::ofstream(root_ / "pictures/red/p.jpg") << "x";
  EXPECT_THAT(message(load), AllOf(HasSubstr("p.jpg is not a PNG file"), HasSubstr("convert it")));
  fs::rename(root_ / "pictures/red/p.jpg", root_ / "pictures/notes.txt");
  EXPECT_THAT(message(load), HasSubstr("notes.txt is not in a subfolder"));
  fs::remove(root_ / "pictures/notes.txt");
  fs::remove_all(root_ / "pictures/blue");
  EXPECT_THAT(message(load), HasSubstr("has 1 subfolders"));
  std::ofstream(root_ / "pictures/red/p1000.png") << "x";
  fs::create_directory(root_ / "pictures/blue");
  fs::rename(root_ / "pictures/red/p1001.png", root_ / "pictures/blue/p.png");
  EXPECT_THAT(test::error_of(load).message(),
              HasSubstr("p1000.png is not a PNG file, or is damaged"));
}

TEST_F(ImageDatasetTest, AllMistakesOfTheSectionAreReported) {
  test::write_made_up_folder(root_ / "pictures", 1);
  const auto parse = [&](const std::string& yaml) {
    const auto document = ConfigDocument::parse(yaml, (root_ / "c.yaml").string());
    return parse_image_data(document.root());
  };
  const auto refusal = [&](const std::string& yaml) {
    return test::error_of([&] { parse(yaml); }).message();
  };
  EXPECT_EQ(parse("{seed: 3}").classes.size(), 10u);
  const ImageDataConfig folder = parse("{path: pictures, height: 8, width: 9, colours: rgb}");
  EXPECT_EQ(folder.path, (root_ / "pictures").string());
  EXPECT_THAT(folder.classes, ElementsAre("blue", "red"));
  EXPECT_EQ(folder.colours, 3);
  EXPECT_GT(folder.test_fraction, 0);
  EXPECT_THAT(refusal("{dataset: mnist}"), HasSubstr("fashion-mnist"));
  EXPECT_THAT(refusal("{path: nowhere, height: 8}"),
              AllOf(HasSubstr("c.yaml:1:8: data.path: there is no folder"), HasSubstr("width")));
  EXPECT_THAT(refusal("{height: 8}"), HasSubstr("height"));
  EXPECT_THAT(refusal("{dataset: fashion-mnist, path: pictures, height: 8, width: 8}"),
              HasSubstr("leave one of them out"));
}

TEST_F(ImageDatasetTest, SizesOfPartsAreKnownWithoutReadingAPicture) {
  test::write_made_up_folder(root_ / "pictures", 40);
  const ImageDataset data = ImageDataset::load(folder());
  const ImageParts parts = image_parts(folder(), 80);
  EXPECT_EQ(parts.train, data.train.size());
  EXPECT_EQ(parts.validation, data.validation.size());
  EXPECT_EQ(parts.test, data.test.size());
}

}  // namespace
}  // namespace weft::apps
