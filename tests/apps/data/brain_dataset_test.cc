#include "apps/data/brain_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "apps/data/brain_batches.h"
#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
using ::testing::HasSubstr;

/// Synthetic head: a brain of 30 x 40 x 50 voxels in the middle of 40 x 50 x 60. Brightness grows
/// with z. Labels 1 and 2.
struct MadeUp {
  Volume head{{40, 50, 60}, {1, 1, 1}, {}}, brain = head, labels = head;
  const std::vector<std::uint8_t> regions{0, 2, 9};

  MadeUp() {
    for (std::int64_t z = 0; z < 60; ++z) {
      for (std::int64_t y = 0; y < 50; ++y) {
        for (std::int64_t x = 0; x < 40; ++x) {
          const bool inside = x >= 5 && x < 35 && y >= 5 && y < 45 && z >= 5 && z < 55;
          head.voxels.push_back(inside ? (50 + z) : 10.0f);
          brain.voxels.push_back(inside ? 1.0f : 0.0f);
          labels.voxels.push_back(!inside || y < 10 ? 0.0f : y < 30 ? 1.0f : 2.0f);
        }
      }
    }
  }
  BrainDataset dataset(const BrainDataConfig& config = {.slabs = 2, .slab = 6, .gap = 3},
                       int height = 24, int width = 24) const {
    return BrainDataset::from_volumes(config, head, brain, labels, regions, height, width);
  }
};

TEST(BrainDataset, HoldsOutSlabsWithGapsAroundThem) {
  const BrainDataset data = MadeUp().dataset();
  EXPECT_EQ(data.held_out.size(), 12U);
  EXPECT_EQ(data.train.size(), 50U - 12 - 12);
  for (const BrainSlice& held : data.held_out) {
    EXPECT_GT(std::abs(data.nearest_training_slice(held).number - held.number), 3);
  }
  EXPECT_THAT([&] { MadeUp().dataset({.slabs = 2, .slab = 50, .gap = 3}); },
              test::throws_error(ErrorCode::kInvalidArgument, "make slabs or gaps smaller"));
}

TEST(BrainDataset, PicturesShowTheFrontOfTheHeadAboveAndRegionsWhereTheLabelsAre) {
  const BrainDataset data =
      MadeUp().dataset({.reduce = 2, .slabs = 2, .slab = 6, .gap = 3}, 24, 24);
  const BrainSlice& slice = data.train.front();
  const auto region = [&](int row, int column) {
    return static_cast<int>(slice.regions[row * 24 + column]);
  };
  // Pixel rows from the front: y = 48, 47 | 46, 45 | ... Region 9 (label 2) is in front of region 2
  // (label 1).
  EXPECT_EQ(region(0, 12), 0);
  EXPECT_EQ(region(5, 12), 9);
  EXPECT_EQ(region(15, 12), 2);
  EXPECT_EQ(region(20, 12), 1);  // brain without a label
  EXPECT_EQ(region(12, 0), 0);
  double sum = 0, squares = 0;
  for (const BrainSlice& s : data.train) {
    for (const float pixel : s.pixels) {
      sum += pixel;
      squares += static_cast<double>(pixel) * pixel;
    }
  }
  const double count = data.train.size() * data.pixels();
  EXPECT_NEAR(sum / count, 0, 1e-4);
  EXPECT_NEAR(squares / count, 1, 1e-4);
}

TEST(BrainDataset, WeightsMakeATrainingPixelCountOneOnAverage) {
  for (const double balance : {0.0, 0.5, 1.0}) {
    const BrainDataset data =
        MadeUp().dataset({.slabs = 2, .slab = 6, .gap = 3, .class_balance = balance});
    const auto frequencies = BrainDataset::frequencies(data.train);
    double mean = 0, entropy = 0;
    for (std::size_t c = 0; c < frequencies.size(); ++c) {
      mean += frequencies[c] * data.class_weights[c];
      if (frequencies[c] > 0) entropy -= frequencies[c] * std::log(frequencies[c]);
    }
    EXPECT_NEAR(mean, 1, 1e-5);
    if (balance > 0) continue;
    EXPECT_NEAR(data.class_prior_loss(), entropy,
                0.02);  // held-out slices resemble the others here
  }
}

TEST(BrainDataset, RefusesVolumesOnDifferentGridsAndLabelsWithoutAName) {
  MadeUp made;
  made.labels.voxels[20 + 40 * (25 + 50 * 30)] = 3;
  EXPECT_THAT([&] { made.dataset(); },
              test::throws_error(ErrorCode::kDataLoss, "has a label 3, but its table ends at"));
  made.labels = MadeUp().labels;
  made.brain.size = {40, 60, 50};
  EXPECT_THAT([&] { made.dataset(); },
              test::throws_error(ErrorCode::kInvalidArgument, "are not on one grid"));
}

TEST(BrainRegions, TheTableNamesALobeForEachLabel) {
  const test::ScratchFolder folder;
  const auto path = folder.path() / "aal.txt";
  std::ofstream(path) << "1 Precentral_L 2001\n2 Insula_L 3001\n\n";
  EXPECT_EQ(read_region_table(path), (std::vector<std::uint8_t>{0, 2, 3}));
  std::ofstream(path) << "1 Precentral_L 2001\n3 Insula_L 3001\n";
  EXPECT_THAT([&] { read_region_table(path); },
              test::throws_error(ErrorCode::kDataLoss, "is not 'label name code' with label 2"));
}

TEST(BrainDataset, TheInstalledHeadHasAllRegionsInBothParts) {
  BrainDataset data;
  try {
    data = BrainDataset::load({}, 112, 96);
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    GTEST_SKIP() << error.message();
  }
  // Reference value: 142 axial slices have more than 500 brain voxels.
  EXPECT_EQ(data.train.size() + data.held_out.size() + 24, 142U);
  for (const auto& slices : {data.train, data.held_out}) {
    for (const double frequency : BrainDataset::frequencies(slices)) EXPECT_GT(frequency, 0.001);
  }
}

class BrainBatchesTest : public ::testing::Test {
 protected:
  template <typename T>
  std::vector<T> read(BrainBatches& batches, const char* input, mesh::Split split,
                      std::uint64_t step, int microbatch, const Region& region) {
    std::vector<T> values(static_cast<std::size_t>(region.num_elements()));
    batches.read(input, split, step, microbatch, 2, region,
                 std::as_writable_bytes(std::span(values)));
    return values;
  }
  const BrainDataset dataset_ = MadeUp().dataset();
  const BrainBatchesRecipe recipe_{
      .data = {}, .height = 24, .width = 24, .rows_per_microbatch = 3, .seed = 5, .digest = {}};
  BrainBatches batches_{recipe_, dataset_};
};

TEST_F(BrainBatchesTest, EveryDeviceReadsJustItsRegionOfTheSameBatch) {
  const auto whole = read<float>(batches_, "pixels", mesh::Split::kTrain, 7, 1,
                                 Region({{0, 3}, {0, 24}, {0, 24}, {0, 1}}));
  BrainBatches other(recipe_, dataset_);
  const auto part = read<float>(other, "pixels", mesh::Split::kTrain, 7, 1,
                                Region({{2, 3}, {4, 8}, {10, 24}, {0, 1}}));
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 14; ++j)
      EXPECT_EQ(part[i * 14 + j], whole[(2 * 24 + 4 + i) * 24 + 10 + j]);
  }
  EXPECT_NE(whole, read<float>(other, "pixels", mesh::Split::kTrain, 8, 1,
                               Region({{0, 3}, {0, 24}, {0, 24}, {0, 1}})));
  EXPECT_NE(whole, read<float>(other, "pixels", mesh::Split::kTrain, 7, 0,
                               Region({{0, 3}, {0, 24}, {0, 24}, {0, 1}})));
}

TEST_F(BrainBatchesTest, WeightsAreThoseOfTheTargets) {
  const Region region({{0, 3}, {0, 24}, {0, 24}});
  const auto targets = read<std::int32_t>(batches_, "targets", mesh::Split::kTrain, 1, 0, region);
  const auto weights = read<float>(batches_, "weights", mesh::Split::kTrain, 1, 0, region);
  for (std::size_t i = 0; i < targets.size(); ++i)
    ASSERT_EQ(weights[i], dataset_.class_weights[static_cast<std::size_t>(targets[i])]);
}

TEST_F(BrainBatchesTest, HeldOutSlicesComeInTurnAsTheyAre) {
  for (int row = 0; row < 3; ++row) {
    const Region region({{row, row + 1}, {0, 24}, {0, 24}, {0, 1}});
    EXPECT_EQ(read<float>(batches_, "pixels", mesh::Split::kValidation, 1, 1, region),
              dataset_.held_out[6 + 3 + static_cast<std::size_t>(row)].pixels);
  }
}

TEST(Augmentation, NoChangeIsNoChangeAndAMirrorIsAMirror) {
  const BrainDataset data = MadeUp().dataset();
  const BrainSlice& slice = data.train[10];
  BrainSlice same, mirrored;
  augment(slice, {}, 24, 24, same);
  EXPECT_EQ(same.pixels, slice.pixels);
  EXPECT_EQ(same.regions, slice.regions);
  augment(slice, {.mirrored = true}, 24, 24, mirrored);
  for (std::size_t row = 0; row < 24; ++row) {
    for (std::size_t column = 0; column < 24; ++column)
      ASSERT_EQ(mirrored.regions[row * 24 + column], slice.regions[row * 24 + 23 - column]);
  }
  const Augmentation drawn = Augmentation::draw(1, 2, 3, false);
  EXPECT_FALSE(drawn.mirrored);
  EXPECT_LE(std::abs(drawn.angle), 0.17);
  EXPECT_EQ(Augmentation::draw(1, 2, 3, false).angle, drawn.angle);
  EXPECT_NE(Augmentation::draw(1, 2, 4, false).angle, drawn.angle);
}

}  // namespace
}  // namespace weft::apps
