#include "apps/selection/npy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/codec/bytes.h"
#include "core/tensor/float16.h"

namespace weft::apps {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kLargestHeader = std::uint64_t{1} << 20;

/// Returns the text after a key of the header, which is a Python dict such as {'descr': '<f4',
/// 'fortran_order': False, 'shape': (60000, 64), }
std::optional<std::string_view> value_of(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    std::size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    at = header.find(':', at + quoted.size());
    if (at == std::string_view::npos) return std::nullopt;
    header.remove_prefix(at + 1);
    header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
    return header;
  }
  return std::nullopt;
}

/// Returns the content of a quoted string.
std::optional<std::string_view> quoted(std::string_view value) {
  if (value.empty() || (value[0] != '\'' && value[0] != '"')) return std::nullopt;
  const std::size_t end = value.find(value[0], 1);
  if (end == std::string_view::npos) return std::nullopt;
  return value.substr(1, end - 1);
}

/// Parses (60000, 64), (5,) or ().
std::optional<std::vector<std::uint64_t>> tuple_of(std::string_view value) {
  if (value.empty() || value[0] != '(') return std::nullopt;
  std::vector<std::uint64_t> numbers;
  std::uint64_t number = 0;
  bool has_digits = false;
  for (const char c : value.substr(1)) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      if (number > std::uint64_t{1} << 48) return std::nullopt;
      number = 10 * number + (c - '0');
      has_digits = true;
    } else if (c == ',' || c == ')') {
      if (has_digits) numbers.push_back(std::exchange(number, 0));
      has_digits = false;
      if (c == ')') return numbers;
    } else if (c != ' ') {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// Converts an element of 2, 4 or 8 bytes.
float value_of_element(std::span<const std::byte> element) {
  ByteReader reader(element);
  switch (element.size()) {
    case 2: return half_to_float(reader.read<std::uint16_t>());
    case 4: return reader.read<float>();
    default: return static_cast<float>(reader.read<double>());
  }
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& path, Elements elements)
    : NpyFile(path, elements, path.string()) {}

NpyFile::NpyFile(std::filesystem::path path, Elements elements, std::string of)
    : file_(std::move(path)), name_(std::move(of)) {
  std::array<std::byte, 12> bytes{};
  if (!file_.read(0, bytes)) damaged("it ends early");
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    damaged("it lacks the signature of .npy files");
  ByteReader begin{std::span(bytes).subspan(kMagic.size())};
  const int version = begin.read<std::uint8_t>();
  begin.read<std::uint8_t>();
  if (version < 1 || version > 3)
    throw_error(ErrorCode::kIncompatible, "{} has format {}; 1 to 3 can be read: save it again",
                name_, version);
  const std::uint64_t length =
      version == 1 ? begin.read<std::uint16_t>() : begin.read<std::uint32_t>();
  if (length > kLargestHeader) damaged("its header is too long");
  const std::uint64_t header_begin = kMagic.size() + begin.position();
  std::string header(length, ' ');
  if (!file_.read(header_begin, std::as_writable_bytes(std::span(header))))
    damaged("it ends early");
  parse(header_begin + length, header, elements);
}

void NpyFile::parse(std::uint64_t begin, std::string_view header, Elements elements) {
  begin_ = begin;
  const std::string_view descr = value_of(header, "descr").value_or("");
  if (descr.starts_with('['))
    throw_error(ErrorCode::kIncompatible,
                "{} is a structured array, whose rows have named fields: save one field, as in "
                "numpy.save(file, array['vector'])",
                name_);
  const auto type = quoted(descr);
  const auto order = value_of(header, "fortran_order");
  const auto shape = tuple_of(value_of(header, "shape").value_or(""));
  if (!type || !order || !shape) damaged("its header lacks descr, fortran_order or shape");
  set_element_type(*type, elements);
  if (!order->starts_with("False"))
    throw_error(ErrorCode::kIncompatible,
                "{} is in Fortran order: save numpy.ascontiguousarray(array)", name_);
  if (shape->empty() || shape->size() > 2)
    throw_error(ErrorCode::kIncompatible,
                "{} has {} dimensions; rows of vectors have 2, numbers 1: save "
                "array.reshape(len(array), -1)",
                name_, shape->size());
  rows_ = shape->front();
  columns_ = shape->size() == 2 ? shape->back() : 1;
  using Wide = unsigned __int128;
  if (Wide{rows_} * columns_ * element_bytes_ + begin_ != file_.size())
    damaged(fmt::format("its length is not that of {} rows of {}", rows_, columns_));
}

void NpyFile::set_element_type(std::string_view type, Elements elements) {
  const std::string_view kinds = elements == Elements::kFloats ? "f" : "iu";
  const std::string_view sizes = elements == Elements::kFloats ? "248" : "48";
  if (type.size() == 3 && type.front() == '<' && kinds.find(type[1]) != kinds.npos &&
      sizes.find(type[2]) != sizes.npos) {
    element_bytes_ = type[2] - '0';
    is_signed_ = type[1] != 'u';
  } else if (elements == Elements::kIntegers) {
    throw_error(ErrorCode::kIncompatible,
                "{} has elements of type {}; integers of 32 and 64 bits can be read: save "
                "array.astype('int64')",
                name_, type);
  } else {
    throw_error(ErrorCode::kIncompatible,
                "{} has elements of type {}; float16, float32 and float64 can be read: save "
                "array.astype('float32')",
                name_, type);
  }
}

std::vector<std::byte> NpyFile::read_bytes(std::uint64_t first, std::size_t values) const {
  WEFT_CHECK(columns_ > 0 && values % columns_ == 0 && first + values / columns_ <= rows_,
             "{} values from row {} of {}", values, first, name_);
  std::vector<std::byte> bytes(values * element_bytes_);
  if (!file_.read(offset_of(first), bytes)) damaged("it ends early");
  return bytes;
}

void NpyFile::read(std::uint64_t first, std::span<float> values) const {
  const std::vector<std::byte> bytes = read_bytes(first, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = value_of_element(std::span(bytes).subspan(i * element_bytes_, element_bytes_));
}

void NpyFile::read_integers(std::uint64_t first, std::span<std::int64_t> values) const {
  const std::vector<std::byte> bytes = read_bytes(first, values.size());
  ByteReader reader(bytes);
  for (std::int64_t& value : values) {
    if (element_bytes_ == 8) value = std::max<std::int64_t>(reader.read<std::int64_t>(), -1);
    else if (is_signed_) value = reader.read<std::int32_t>();
    else value = reader.read<std::uint32_t>();
  }
}

void NpyFile::damaged(std::string_view what) const {
  throw_error(ErrorCode::kDataLoss, "{} is not a .npy file, or it is damaged: {}; save it again",
              name_, what);
}

}  // namespace weft::apps
