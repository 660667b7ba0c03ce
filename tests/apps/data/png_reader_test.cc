#include "apps/data/png_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>

#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
using ::testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

std::string number(std::uint32_t value) {
  std::string text;
  for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(value >> shift);
  return text;
}

std::string chunk(const std::string& kind, const Bytes& content) {
  const std::string body = kind + std::string(content.begin(), content.end());
  return number(content.size()) + body +
         number(crc32(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
}

/// Returns a PNG file. Each of `rows` begins with its filter's number.
std::string png(std::uint8_t width, std::uint8_t height, std::uint8_t depth, std::uint8_t kind,
                const Bytes& rows, const Bytes& palette = {}, std::uint8_t interlaced = 0) {
  Bytes packed(compressBound(rows.size()));
  uLongf size = packed.size();
  EXPECT_EQ(compress(packed.data(), &size, rows.data(), rows.size()), Z_OK);
  packed.resize(size);
  std::string text("\x89PNG\r\n\x1a\n", 8);
  text += chunk("IHDR", {0, 0, 0, width, 0, 0, 0, height, depth, kind, 0, 0, interlaced});
  if (!palette.empty()) text += chunk("PLTE", palette);
  // two IDAT chunks, as encoders may write
  text += chunk("IDAT", Bytes(packed.begin(), packed.begin() + 3));
  text += chunk("tEXt", {1, 2});
  text += chunk("IDAT", Bytes(packed.begin() + 3, packed.end()));
  return text + chunk("IEND", {});
}

Picture parse(const std::string& file) {
  return parse_png(std::as_bytes(std::span(file)), "p.png");
}
Error refused(const std::string& file) {
  return test::error_of([&] { parse(file); });
}

TEST(PngReader, GivesBackWhatThePictureWriterWrites) {
  Picture picture(5, 3, {9, 8, 7});
  picture.set(4, 2, {255, 0, 128});
  const Picture read = parse(to_png(picture));
  ASSERT_EQ(read.width(), 5);
  ASSERT_EQ(read.height(), 3);
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 5; ++x) EXPECT_EQ(read.at(x, y), picture.at(x, y));
}

/// Filters rows of 3 pixels by the definitions of RFC 2083, each with another filter.
TEST(PngReader, UndoesEveryFilter) {
  Bytes plain, filtered;
  for (int y = 0; y < 10; ++y) {
    const int filter = y % 5;
    filtered.push_back(filter);
    for (int i = 0; i < 9; ++i) plain.push_back((y * 37 + i * i * 11 + (y * i) % 7 * 29) % 256);
    for (int i = 0; i < 9; ++i) {
      const auto at = [&](int row, int k) {
        return row < 0 || k < 0 ? 0 : int{plain[row * 9 + k]};
      };
      const int a = at(y, i - 3), b = at(y - 1, i), c = at(y - 1, i - 3);
      const int p = a + b - c;
      const int nearest = std::abs(p - a) <= std::abs(p - b) && std::abs(p - a) <= std::abs(p - c)
                              ? a
                          : std::abs(p - b) <= std::abs(p - c) ? b
                                                               : c;
      const int guess[] = {0, a, b, (a + b) / 2, nearest};
      filtered.push_back(plain[y * 9 + i] - guess[filter]);
    }
  }
  const Picture picture = parse(png(3, 10, 8, 2, filtered));
  for (int y = 0; y < 10; ++y)
    for (int x = 0; x < 3; ++x) {
      const std::uint8_t* of = &plain[y * 9 + x * 3];
      EXPECT_EQ(picture.at(x, y), (Colour{of[0], of[1], of[2]})) << x << " " << y;
    }
}

TEST(PngReader, ReadsGreysPalettesAndDeepPixels) {
  const auto grey = [](std::uint8_t level) { return Colour{level, level, level}; };
  const Picture bits = parse(png(3, 1, 1, 0, {0, 0b01000000}));
  EXPECT_EQ(bits.at(0, 0), grey(0));
  EXPECT_EQ(bits.at(1, 0), grey(255));
  EXPECT_EQ(parse(png(2, 1, 4, 0, {0, 0x5f})).at(0, 0), grey(85));
  EXPECT_EQ(parse(png(1, 1, 16, 0, {0, 200, 99})).at(0, 0), grey(200));
  EXPECT_EQ(parse(png(1, 1, 8, 4, {0, 50, 7})).at(0, 0), grey(50));
  EXPECT_EQ(parse(png(1, 1, 8, 6, {0, 1, 2, 3, 77})).at(0, 0), (Colour{1, 2, 3}));
  EXPECT_EQ(parse(png(4, 1, 2, 3, {0, 0b00011000}, {0, 0, 0, 4, 5, 6, 7, 8, 9})).at(2, 0),
            (Colour{7, 8, 9}));
}

TEST(PngReader, DamagedAndUnsupportedFilesAreNamed) {
  const std::string sound = png(1, 1, 8, 0, {0, 50});
  const Error cut = refused(sound.substr(0, sound.size() - 13));
  EXPECT_EQ(cut.code(), ErrorCode::kDataLoss);
  EXPECT_THAT(cut.message(), HasSubstr("p.png is not a PNG file, or is damaged or cut off"));
  std::string flipped = sound;
  flipped[17] ^= 1;
  EXPECT_THAT(refused(flipped).message(), HasSubstr("checksum"));
  EXPECT_THAT(refused("GIF89a").message(), HasSubstr("does not begin"));
  EXPECT_THAT(refused(png(2, 2, 8, 0, {0, 50})).message(), HasSubstr("cannot be unpacked"));
  EXPECT_THAT(refused(png(1, 1, 8, 3, {0, 1}, {1, 2, 3})).message(), HasSubstr("palette"));
  EXPECT_THAT(refused(png(1, 1, 3, 0, {0, 1})).message(), HasSubstr("none that PNG has"));
  EXPECT_THAT(refused(png(1, 1, 8, 0, {0, 1}, {}, 1)).message(), HasSubstr("interlaced"));
}

}  // namespace
}  // namespace weft::apps
