#include "apps/data/picture.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

TEST(Picture, PastingCutsOffWhatLiesOutside) {
  Picture picture(3, 2);
  Picture red(2, 2, {255, 0, 0});
  picture.paste(red, 2, -1);
  EXPECT_EQ(picture.at(2, 0), (Colour{255, 0, 0}));
  EXPECT_EQ(picture.at(1, 0), Colour{});
  EXPECT_EQ(picture.at(2, 1), Colour{});
  EXPECT_EQ(picture.enlarged(2).at(5, 1), (Colour{255, 0, 0}));
  EXPECT_EQ(picture.enlarged(2).at(5, 2), Colour{});
  EXPECT_THAT([&] { Picture(0, 1); },
              test::throws_error(ErrorCode::kInvalidArgument, "cannot have the size 0 x 1"));
}

TEST(Picture, APngIsSignatureAndChunksWithChecksumsAndTheRowsComeBack) {
  Picture picture(3, 2, {1, 2, 3});
  picture.set(2, 1, {7, 8, 9});
  const std::string png = to_png(picture);
  ASSERT_EQ(png.substr(0, 8), std::string("\x89PNG\r\n\x1a\n", 8));
  std::vector<std::string> kinds;
  std::string data;
  for (std::size_t at = 8; at < png.size();) {
    const std::uint32_t size = big_endian(png, at);
    const std::string body = png.substr(at + 4, 4 + size);
    EXPECT_EQ(big_endian(png, at + 8 + size), crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                                    static_cast<uInt>(body.size())));
    kinds.push_back(body.substr(0, 4));
    if (kinds.back() == "IDAT") data = body.substr(4);
    if (kinds.back() == "IHDR") {
      EXPECT_EQ(big_endian(body, 4), 3U);
      EXPECT_EQ(big_endian(body, 8), 2U);
    }
    at += 12 + size;
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"IHDR", "IDAT", "IEND"}));
  std::string rows(2 * 10, '\0');
  uLongf size = rows.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(rows.data()), &size,
                       reinterpret_cast<const Bytef*>(data.data()), data.size()),
            Z_OK);
  EXPECT_EQ(rows, std::string("\0\1\2\3\1\2\3\1\2\3\0\1\2\3\1\2\3\7\x08\x09", 20));
}

}  // namespace
}  // namespace weft::apps
