#include "apps/classification/coarse_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/classification/image_dataset.h"
#include "apps/data/chosen_rows.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/image_files.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

LabelledImages made_up(std::size_t count) {
  LabelledImages images{.height = 28, .width = 28};
  for (std::size_t row = 0; row < count; ++row) {
    std::vector<std::uint8_t> values;
    for (std::size_t i = 0; i < 784; ++i)
      values.push_back(test::made_up_value(row, i, test::made_up_label(row)));
    images.append(values, test::made_up_label(row));
  }
  return images;
}

const CoarseOptions kQuick{.hidden = {8}, .steps = 150, .batch = 16, .learning_rate = 1e-2};

/// Returns the share of rows whose most likely label is correct.
double accuracy(Device& device, const CoarseModel& model, const LabelledImages& images) {
  const auto blocks = model.create_on(device);
  double right = 0;
  for (std::size_t b = 0; b < BatchedClassifier::num_blocks(images); ++b) {
    const ImageBlock block = blocks->run(images, b);
    const std::size_t classes = model.shape.classes;
    for (std::size_t i = 0; i < block.rows; ++i) {
      const auto logits = std::span(block.logits).subspan(i * classes, classes);
      right += std::ranges::max_element(logits) - logits.begin() == images.labels[block.first + i];
    }
  }
  return right / images.size();
}

TEST(MarginUtility, IsOneLessTheLeadOfTheLikeliestLabel) {
  const float three = std::log(3.0f), huge = 1000;
  const ImageBlock block{
      .rows = 3, .features = {}, .logits = {0, three, 0, 5, 5, -huge, huge, 0, 0}};
  EXPECT_THAT(margin_utilities(block),
              ::testing::Pointwise(::testing::FloatNear(1e-6f), {1 - (0.6f - 0.2f), 1.0f, 0.0f}));
}

TEST(CoarseModel, LearnsFromATenthAloneAndSaysTheSameEachTime) {
  LabelledImages images = made_up(600);
  CpuDevice device;
  const CoarseModel model = train_coarse_model(device, images, 10, kQuick);
  EXPECT_GT(accuracy(device, model, images), 0.8);
  // Labels outside the sampled tenth make no difference.
  const auto seen = random_rows(600, 60, kQuick.seed);
  for (std::size_t row = 0; row < images.size(); ++row)
    if (!std::ranges::binary_search(seen, row)) images.labels[row] = 0;
  EXPECT_EQ(train_coarse_model(device, images, 10, kQuick).parameters, model.parameters);
  CoarseOptions other = kQuick;
  other.seed = 2;
  EXPECT_NE(train_coarse_model(device, images, 10, other).parameters, model.parameters);
  EXPECT_EQ(test::error_of([&] { train_coarse_model(device, {}, 10, kQuick); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(CoarseModel, OutputsDoNotDependOnTheAssignmentOfBlocks) {
  const LabelledImages images = made_up(2 * BatchedClassifier::kRows + 5);
  CpuDevice device;
  const CoarseModel model = train_coarse_model(device, images, 10, kQuick);
  std::vector<float> features;
  const CoarseOutputs outputs = coarse_outputs(device, model, images, [&](const ImageBlock& block) {
    EXPECT_EQ(block.first * 8, features.size());
    features.insert(features.end(), block.features.begin(), block.features.end());
  });
  EXPECT_EQ(outputs.width, 8u);
  ASSERT_EQ(outputs.utility.size(), images.size());
  ASSERT_EQ(features.size(), images.size() * 8);
  EXPECT_EQ(std::ranges::min(outputs.utility), 0.0f);
  EXPECT_LE(std::ranges::max(outputs.utility), 1.0f);

  // Two workers take turns, from the last block on. The smallest margin is that of all blocks.
  const auto first = model.create_on(device), second = model.create_on(device);
  std::vector<float> utility(images.size());
  for (std::size_t b = BatchedClassifier::num_blocks(images); b-- > 0;) {
    const ImageBlock block = (b % 2 == 0 ? first : second)->run(images, b);
    std::ranges::copy(margin_utilities(block), utility.begin() + block.first);
    EXPECT_TRUE(std::ranges::equal(block.features,
                                   std::span(features).subspan(block.first * 8, block.rows * 8)));
  }
  const float least = std::ranges::min(utility);
  for (std::size_t row = 0; row < utility.size(); ++row)
    EXPECT_EQ(utility[row] - least, outputs.utility[row]) << row;
}

TEST(CoarseModel, NamesMostRealPicturesAfterATenthOfThem) {
  const ImageDataConfig config = default_image_data();
  if (!std::filesystem::exists(config.files))
    GTEST_SKIP() << "the Debian package dataset-fashion-mnist is not installed";
  const ImageDataset data = ImageDataset::load(config);
  CpuDevice device;
  CoarseOptions options;
  options.steps = 1000;
  const CoarseModel model = train_coarse_model(device, data.train, 10, options);
  EXPECT_GT(accuracy(device, model, data.test), 0.81);
}

}  // namespace
}  // namespace weft::apps
