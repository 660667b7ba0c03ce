#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/data/picture.h"

namespace weft::test {

/// Returns the bytes of an IDX file of bytes.
inline std::vector<std::byte> idx_bytes(const std::vector<std::uint32_t>& shape,
                                        const std::vector<std::uint8_t>& values) {
  std::vector<std::byte> bytes{std::byte{0}, std::byte{0}, std::byte{8},
                               static_cast<std::byte>(shape.size())};
  for (const std::uint32_t size : shape)
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::byte>(size >> shift));
  for (const std::uint8_t value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

inline void write_gzip(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  gzFile file = gzopen(path.c_str(), "wb1");
  const bool written = gzwrite(file, bytes.data(), bytes.size()) == static_cast<int>(bytes.size());
  if (gzclose(file) != Z_OK || !written) throw std::runtime_error("cannot write " + path.string());
}

/// Returns pixel `i` of generated picture `row` of 28 x 28: noise, with a bright band whose
/// position depends on the label (0 to 9).
inline std::uint8_t made_up_value(std::size_t row, std::size_t i, std::size_t label) {
  const std::size_t noise = (row * 7919 + i * 104729) * 2654435761u % 4294967291u >> 8 & 63;
  return static_cast<std::uint8_t>(noise + (i / 28 / 2 == label + 2 ? 150 : 0));
}
inline std::size_t made_up_label(std::size_t row) { return row * 7 % 10; }

/// Writes generated pictures to `folder` in Fashion-MNIST's file format.
inline void write_made_up_dataset(const std::filesystem::path& folder, std::uint32_t train,
                                  std::uint32_t test) {
  std::filesystem::create_directories(folder);
  std::size_t row = 0;
  for (const auto& [part, count] : {std::pair<std::string, std::uint32_t>("train", train),
                                    std::pair<std::string, std::uint32_t>("t10k", test)}) {
    std::vector<std::uint8_t> values, labels;
    for (std::uint32_t k = 0; k < count; ++k, ++row) {
      labels.push_back(made_up_label(row));
      for (std::size_t i = 0; i < 784; ++i)
        values.push_back(made_up_value(row, i, made_up_label(row)));
    }
    write_gzip(folder / (part + "-images-idx3-ubyte.gz"), idx_bytes({count, 28, 28}, values));
    write_gzip(folder / (part + "-labels-idx1-ubyte.gz"), idx_bytes({count}, labels));
  }
}

/// Writes a folder of 6 x 4 pictures: `count` red and `count` blue ones in subfolders.
inline void write_made_up_folder(const std::filesystem::path& folder, int count) {
  for (const char* label : {"blue", "red"}) {
    std::filesystem::create_directories(folder / label);
    for (int i = 0; i < count; ++i) {
      const auto shade = static_cast<std::uint8_t>(100 + 5 * (i % 30));
      const apps::Colour colour =
          label[0] == 'r' ? apps::Colour{shade, 0, 10} : apps::Colour{0, 10, shade};
      apps::write_png(apps::Picture(6, 4, colour),
                      folder / label / ("p" + std::to_string(1000 + i) + ".png"));
    }
  }
}

}  // namespace weft::test
