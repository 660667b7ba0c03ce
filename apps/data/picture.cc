#include "apps/data/picture.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

void append_big_endian(std::string& to, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) to += static_cast<char>(value >> shift & 0xff);
}

/// Appends a chunk: length, kind, content, checksum of kind and content.
void append_chunk(std::string& to, const std::string& kind, const std::string& content) {
  append_big_endian(to, content.size());
  const std::string body = kind + content;
  to += body;
  append_big_endian(to, crc32(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(result.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_COMPRESSION);
  WEFT_CHECK(status == Z_OK, "zlib status {}", status);
  result.resize(size);
  return result;
}

}  // namespace

Picture::Picture(int width, int height, Colour background) : width_(width), height_(height) {
  if (width < 1 || height < 1)
    throw_error(ErrorCode::kInvalidArgument, "a picture cannot have the size {} x {}", width,
                height);
  pixels_.assign(width * static_cast<std::size_t>(height), background);
}

void Picture::paste(const Picture& other, int x, int y) {
  for (int row = std::max(0, -y); row < other.height_ && y + row < height_; ++row) {
    for (int column = std::max(0, -x); column < other.width_ && x + column < width_; ++column)
      set(x + column, y + row, other.at(column, row));
  }
}

Picture Picture::enlarged(int factor) const {
  Picture result(width_ * factor, height_ * factor);
  for (int y = 0; y < result.height_; ++y) {
    for (int x = 0; x < result.width_; ++x) result.set(x, y, at(x / factor, y / factor));
  }
  return result;
}

std::string to_png(const Picture& picture) {
  std::string header;
  append_big_endian(header, picture.width());
  append_big_endian(header, picture.height());
  // 8 bits, red-green-blue, deflate, standard filters, not interlaced
  header += std::string("\x08\x02\x00\x00\x00", 5);
  std::string rows;
  for (int y = 0; y < picture.height(); ++y) {
    rows += '\0';  // this row is not filtered
    for (int x = 0; x < picture.width(); ++x) {
      const Colour colour = picture.at(x, y);
      for (const std::uint8_t part : {colour.red, colour.green, colour.blue})
        rows += static_cast<char>(part);
    }
  }
  std::string png("\x89PNG\r\n\x1a\n", 8);
  append_chunk(png, "IHDR", header);
  append_chunk(png, "IDAT", deflated(rows));
  append_chunk(png, "IEND", "");
  return png;
}

void write_png(const Picture& picture, const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::binary);
  out << to_png(picture);
  out.close();
  if (!out) throw_error(ErrorCode::kUnavailable, "cannot write {}", path.string());
}

}  // namespace weft::apps
