#include "apps/data/png_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);
constexpr std::uint32_t kMostPixels = std::uint32_t{1} << 26;
constexpr std::size_t kChunkFrame = 12;  // length and kind before the content, checksum after it

std::uint32_t big_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

/// Content of the IHDR chunk.
struct PngHeader {
  std::uint32_t width = 0, height = 0;
  unsigned depth = 0;  ///< Bits of a sample.
  unsigned kind = 0;   ///< 0 grey, 2 colours, 3 palette, 4 grey and alpha, 6 colours and alpha.

  unsigned samples() const { return kind == 2 ? 3 : kind == 4 ? 2 : kind == 6 ? 4 : 1; }
  std::size_t row_bytes() const { return (std::size_t{width} * samples() * depth + 7) / 8; }
  /// Returns true if PNG permits samples of `depth` bits in a picture of this kind.
  bool has_permitted_depth() const {
    const bool is_byte_or_two = depth == 8 || depth == 16;
    const bool is_part_of_byte = depth == 1 || depth == 2 || depth == 4;
    if (kind == 0) return is_part_of_byte || is_byte_or_two;
    if (kind == 3) return is_part_of_byte || depth == 8;
    return (kind == 2 || kind == 4 || kind == 6) && is_byte_or_two;
  }
  /// Returns the distance in bytes to the same sample of the pixel to the left (at least 1).
  std::size_t pixel_bytes() const { return std::max(1u, samples() * depth / 8); }
};

class PngParser {
 public:
  explicit PngParser(const std::string& name) : name_(name) {}

  Picture parse(std::span<const std::byte> bytes) {
    if (bytes.size() < kSignature.size() ||
        std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) != 0)
      damaged("it does not begin as a PNG file does");
    read_chunks(bytes.subspan(kSignature.size()));
    std::vector<std::uint8_t> rows = inflated();
    unfilter(rows);
    return drawn(rows);
  }

 private:
  [[noreturn]] void damaged(const char* what) const {
    throw_error(ErrorCode::kDataLoss, "{} is not a PNG file, or is damaged or cut off: {}", name_,
                what);
  }

  void read_chunks(std::span<const std::byte> rest) {
    bool first = true;
    while (true) {
      if (rest.size() < kChunkFrame) damaged("its end is missing");
      const std::size_t length = big_endian(rest);
      if (length > rest.size() - kChunkFrame) damaged("its end is missing");
      const std::string_view kind(reinterpret_cast<const char*>(rest.data()) + 4, 4);
      const auto content = rest.subspan(8, length);
      if (crc32(0, reinterpret_cast<const Bytef*>(rest.data() + 4), length + 4) !=
          big_endian(rest.subspan(8 + length)))
        damaged("a checksum does not agree");
      if (first != (kind == "IHDR")) damaged("its header is not in its place");
      first = false;
      if (kind == "IHDR") {
        read_header(content);
      } else if (kind == "PLTE") {
        palette_.assign(content.begin(), content.end());
      } else if (kind == "IDAT") {
        packed_.insert(packed_.end(), content.begin(), content.end());
      } else if (kind == "IEND") {
        return;
      }
      rest = rest.subspan(kChunkFrame + length);
    }
  }

  void read_header(std::span<const std::byte> content) {
    if (content.size() != 13) damaged("its header has another size");
    const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(content[i]); };
    header_ = {big_endian(content), big_endian(content.subspan(4)), byte(8), byte(9)};
    if (!header_.has_permitted_depth() || header_.width == 0 || header_.height == 0 ||
        byte(10) != 0 || byte(11) != 0)
      damaged("its header is none that PNG has");
    if (byte(12) != 0)
      throw_error(ErrorCode::kInvalidArgument,
                  "{} is an interlaced PNG file, which cannot be read: save it without interlacing",
                  name_);
    if (header_.width > kMostPixels / header_.height)
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has {} x {} pixels, more than the {} that are read; scale it down", name_,
                  header_.width, header_.height, kMostPixels);
  }

  /// Decompresses the pixels. Each row begins with a byte for its filter.
  std::vector<std::uint8_t> inflated() const {
    // Deflate compresses at most about 1,032 to 1. Rejects a header that requires more.
    const std::size_t size = (header_.row_bytes() + 1) * header_.height;
    if (size / 1040 > packed_.size()) damaged("it has too few pixels");
    std::vector<std::uint8_t> rows(size);
    uLongf length = size;
    const int status = uncompress(rows.data(), &length,
                                  reinterpret_cast<const Bytef*>(packed_.data()), packed_.size());
    if (status != Z_OK || length != size) damaged("its pixels cannot be unpacked");
    return rows;
  }

  void unfilter(std::vector<std::uint8_t>& rows) const {
    const std::size_t stride = header_.row_bytes() + 1, step = header_.pixel_bytes();
    for (std::uint32_t y = 0; y < header_.height; ++y) {
      std::uint8_t* row = rows.data() + y * stride + 1;
      const std::uint8_t* above = y == 0 ? nullptr : row - stride;
      const unsigned filter = row[-1];
      if (filter > 4) damaged("a row has a filter that PNG has not");
      for (std::size_t i = 0; filter != 0 && i + 1 < stride; ++i) {
        const int a = i >= step ? row[i - step] : 0, b = above ? above[i] : 0;
        const int c = above && i >= step ? above[i - step] : 0;
        const int of_filter[] = {0, a, b, (a + b) / 2, paeth(a, b, c)};
        row[i] = static_cast<std::uint8_t>(row[i] + of_filter[filter]);
      }
    }
  }

  static int paeth(int a, int b, int c) {
    const int to_a = std::abs(b - c), to_b = std::abs(a - c), to_c = std::abs(a + b - 2 * c);
    return to_a <= to_b && to_a <= to_c ? a : to_b <= to_c ? b : c;
  }

  Picture drawn(const std::vector<std::uint8_t>& rows) const {
    Picture picture(header_.width, header_.height);
    for (std::uint32_t y = 0; y < header_.height; ++y) {
      const std::uint8_t* row = rows.data() + y * (header_.row_bytes() + 1) + 1;
      for (std::uint32_t x = 0; x < header_.width; ++x) picture.set(x, y, colour(row, x));
    }
    return picture;
  }

  Colour colour(const std::uint8_t* row, std::size_t x) const {
    const std::size_t first = x * header_.samples();
    if (header_.kind == 3) {
      const std::size_t entry = 3 * std::size_t{sample(row, first)};
      if (entry + 3 > palette_.size()) damaged("a pixel has a colour that its palette has not");
      const auto part = [&](std::size_t i) {
        return std::to_integer<std::uint8_t>(palette_[entry + i]);
      };
      return {part(0), part(1), part(2)};
    }
    if (header_.samples() >= 3)
      return {sample(row, first), sample(row, first + 1), sample(row, first + 2)};
    const unsigned most = (1u << std::min(header_.depth, 8u)) - 1;
    const auto grey = static_cast<std::uint8_t>(sample(row, first) * 255u / most);
    return {grey, grey, grey};
  }

  /// Returns the upper 8 bits of a sample, or the whole sample if it has fewer.
  std::uint8_t sample(const std::uint8_t* row, std::size_t i) const {
    if (header_.depth >= 8) return row[i * (header_.depth / 8)];
    const std::size_t bit = i * header_.depth;
    const unsigned shift = 8 - header_.depth - bit % 8;
    return row[bit / 8] >> shift & ((1u << header_.depth) - 1);
  }

  const std::string& name_;
  PngHeader header_;
  std::vector<std::byte> palette_, packed_;
};

}  // namespace

Picture parse_png(std::span<const std::byte> bytes, const std::string& name) {
  return PngParser(name).parse(bytes);
}

Picture read_png(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad() || std::filesystem::is_directory(path))
    throw_error(ErrorCode::kNotFound, "cannot read {}", path.string());
  return parse_png(std::as_bytes(std::span(bytes)), path.string());
}

}  // namespace weft::apps
