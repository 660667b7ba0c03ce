#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

namespace weft::test {

/// Writes `values` as numpy.save writes an array of `columns` columns.
template <typename T>
void write_npy(const std::filesystem::path& file, std::size_t columns,
               const std::vector<T>& values) {
  std::string text =
      fmt::format("{{'descr': '<{}{}', 'fortran_order': False, 'shape': ({}, {}), }}",
                  std::is_floating_point_v<T> ? 'f'
                  : std::is_signed_v<T>       ? 'i'
                                              : 'u',
                  sizeof(T), values.size() / columns, columns);
  while ((11 + text.size()) % 64 != 0) text += ' ';
  text += '\n';
  std::ofstream stream(file, std::ios::binary);
  stream << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(text.size() & 0xff)
         << static_cast<char>(text.size() >> 8) << text;
  stream.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
}

}  // namespace weft::test
