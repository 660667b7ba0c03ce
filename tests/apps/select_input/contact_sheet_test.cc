#include "apps/select_input/contact_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "apps/data/png_reader.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch_folder.h"

namespace weft::apps {
namespace {
using ::testing::ElementsAre;

TEST(SheetStrips, HaveTheMostSimilarOfWhatWasLeftOutFirst) {
  const std::vector<std::uint64_t> chosen = {7, 3};
  const std::vector<RejectedNeighbour> neighbours = {{3, 1, 0.5}, {9, 2, 0.9}, {3, 4, 0.9},
                                                     {3, 5, 0.5}, {3, 6, 0.6}, {3, 8, 0.1}};
  const std::vector<SheetStrip> strips = sheet_strips(chosen, neighbours);
  ASSERT_EQ(strips.size(), 2U);
  EXPECT_EQ(strips[0], SheetStrip{.chosen = 7});
  EXPECT_THAT(strips[1].rejected,
              ElementsAre(RejectedNeighbour{3, 4, 0.9}, RejectedNeighbour{3, 6, 0.6},
                          RejectedNeighbour{3, 1, 0.5}, RejectedNeighbour{3, 5, 0.5}));
  EXPECT_EQ(sheet_strips(std::vector<std::uint64_t>(100, 1), {}).size(), kStripsOfSheet);
}

TEST(ContactText, ShowsRowsBelowEachOtherOnLinesOfTheirOwn) {
  const std::vector<SheetStrip> strips = {{.chosen = 3, .rejected = {{3, 4, 0.914}}}};
  EXPECT_EQ(contact_text(strips, {{3, "a\n b  c"}, {4, std::string(599, 'x') + "\xc3\xa4y"}}),
            "chosen, row 3\n  a b c\n    left out, similarity 0.91, row 4\n      " +
                std::string(599, 'x') + " ...\n\n");
}

TEST(ContactSheet, IsWrittenFromThePicturesOfTheInput) {
  const test::ScratchFolder scratch;
  const std::filesystem::path& root = scratch.path();
  test::write_made_up_folder(root / "in", 2);
  std::filesystem::remove_all(root / "in/red");
  const SelectInput input{.path = (root / "in").string()};
  CpuDevice device;
  const PreparedInput prepared = prepare_input(input, root / "out", device);
  const std::vector<std::uint64_t> chosen = {1, 0};
  const std::vector<RejectedNeighbour> neighbours = {{1, 0, 0.5}};
  const auto file = write_contact_sheet(input, prepared, chosen, neighbours, root);
  EXPECT_EQ(file, root / "chosen.png");
  const Picture sheet = read_png(*file);
  // The second picture has a green frame. Beside it, the first has a red frame and half a bar.
  const Colour green{40, 160, 70}, red{200, 60, 50}, white{255, 255, 255};
  EXPECT_EQ(sheet.at(12, 12), green);
  EXPECT_EQ(sheet.at(12 + 45, 12 + 45), (Colour{0, 10, 105}));
  EXPECT_EQ(sheet.at(12 + 94, 12), red);
  EXPECT_EQ(sheet.at(12 + 94 + 45, 12 + 45), (Colour{0, 10, 100}));
  EXPECT_EQ(sheet.at(12 + 94 + 10, 12 + 92), red);
  EXPECT_EQ(sheet.at(12 + 94 + 80, 12 + 92), white);
}

}  // namespace
}  // namespace weft::apps
