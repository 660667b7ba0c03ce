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

/// Array in a NumPy file (.npy, format 1 to 3) of f2, f4 or f8, or of integers of 4 or 8 bytes, in
/// C order, with one or two dimensions. Reads rows on request. Callable from any thread.
class NpyFile final {
 public:
  enum class Elements : std::uint8_t { kFloats, kIntegers };

  /// Opens a file. Throws Error(kNotFound), Error(kIncompatible) or Error(kDataLoss), which name
  /// the file and the remedy.
  explicit NpyFile(const std::filesystem::path& path, Elements elements = Elements::kFloats);
  /// Opens a file that has only some rows of the file `of`, at the same offsets. Errors name `of`.
  NpyFile(std::filesystem::path path, Elements elements, std::string of);
  const std::string& path() const { return name_; }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }  ///< 1 for a one-dimensional array.
  std::uint64_t bytes() const { return file_.size(); }
  /// Returns the offset of a row in the file. `row` may be rows(), for the end.
  std::uint64_t offset_of(std::uint64_t row) const {
    return begin_ + row * columns_ * element_bytes_;
  }

  /// Reads consecutive rows from `first` on until `values` is full. Its size must be a multiple of
  /// columns(), and the rows must exist.
  void read(std::uint64_t first, std::span<float> values) const;
  /// Reads integers in the same way. Integers that do not fit into 63 bits become -1.
  void read_integers(std::uint64_t first, std::span<std::int64_t> values) const;

 private:
  std::vector<std::byte> read_bytes(std::uint64_t first, std::size_t values) const;
  /// Parses the header, which ends at byte `begin` of the file.
  void parse(std::uint64_t begin, std::string_view header, Elements elements);
  /// Reads a type such as "<f4". Throws Error(kIncompatible) unless it is one of `elements`.
  void set_element_type(std::string_view type, Elements elements);
  [[noreturn]] void damaged(std::string_view what) const;

  const InputFile file_;
  const std::string name_;
  std::uint64_t begin_ = 0;  ///< Offset of the array in the file.
  std::uint64_t rows_ = 0, columns_ = 1;
  std::size_t element_bytes_ = 4;
  bool is_signed_ = true;
};

}  // namespace weft::apps
