#include "apps/data/picture_text.h"

#include <gtest/gtest.h>

namespace weft::apps {
namespace {

/// Returns row `y` of the picture, with '#' for white pixels.
std::string line_of(const Picture& picture, int y) {
  std::string text;
  for (int x = 0; x < picture.width(); ++x) text += picture.at(x, y).red == 255 ? '#' : '.';
  return text;
}

TEST(PictureText, DrawsLetters) {
  Picture picture(12, 8);
  draw_text(picture, 0, 0, "T1", {255, 255, 255});
  EXPECT_EQ(line_of(picture, 0), "#####...#...");
  EXPECT_EQ(line_of(picture, 1), "..#....##...");
  EXPECT_EQ(line_of(picture, 6), "..#....###..");
  EXPECT_EQ(line_of(picture, 7), "............");
}

TEST(PictureText, TextThatDoesNotFitIsCut) {
  Picture picture(4, 4);
  draw_text(picture, 1, -2, "\xc3W", {255, 255, 255});
  draw_text(picture, -20, 0, "W", {255, 255, 255});
  EXPECT_EQ(text_within("ankle boot", 60), "ankle boot");
  EXPECT_EQ(text_within("ankle boot", 54), "ankle b..");
  EXPECT_EQ(text_within("ankle boot", 0), "");
}

}  // namespace
}  // namespace weft::apps
