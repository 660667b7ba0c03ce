#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/spill/input_file.h"

namespace weft::apps {

/// An array in a file of NumPy's (.npy, format 1 to 3): f2, f4 or f8, or integers of 4 or 8 bytes,
/// in C order, of one or two dimensions. Reads rows when they are asked for. Any thread.
class NpyFile final {
 public:
  enum class Elements : std::uint8_t { kFloats, kIntegers };

  /// Throws Error(kNotFound), Error(kIncompatible) or Error(kDataLoss), which name the file and say
  /// what to do.
  explicit NpyFile(const std::filesystem::path& path, Elements elements = Elements::kFloats);
  /// `path` has some rows of `of`, at their places: errors name that.
  NpyFile(std::filesystem::path path, Elements elements, std::string of);
  const std::string& path() const { return name_; }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }  ///< 1 of a one-dimensional array.
  std::uint64_t bytes() const { return file_.size(); }
  /// Where a row lies in the file; also the one behind the last.
  std::uint64_t offset_of(std::uint64_t row) const {
    return begin_ + row * columns_ * element_bytes_;
  }

  /// Whole rows from `first` on, as many as fit into `values`, whose size is a multiple of
  /// columns(). There must be so many.
  void read(std::uint64_t first, std::span<float> values) const;
  /// The same of integers; what 63 bits do not hold is -1.
  void read_integers(std::uint64_t first, std::span<std::int64_t> values) const;

 private:
  std::vector<std::byte> read_bytes(std::uint64_t first, std::size_t values) const;
  /// The array's place in the file.
  void parse(std::uint64_t begin, std::string_view header, Elements elements);
  [[noreturn]] void damaged(std::string_view what) const;

  const InputFile file_;
  const std::string name_;
  std::uint64_t begin_ = 0;  ///< Of the array in the file.
  std::uint64_t rows_ = 0, columns_ = 1;
  std::size_t element_bytes_ = 4;
  bool is_signed_ = true;
};

}  // namespace weft::apps
