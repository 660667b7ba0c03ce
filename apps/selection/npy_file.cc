#include "apps/selection/npy_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/tensor/float16.h"

namespace weft::apps {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kLargestHeader = std::uint64_t{1} << 20;

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
  throw_error(ErrorCode::kDataLoss, "{} is no .npy file, or is damaged: {}", path.string(), what);
}

void read_at(int fd, const std::filesystem::path& path, std::uint64_t offset,
             std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw_error(ErrorCode::kUnavailable, "cannot read {}: {}", path.string(),
                  std::strerror(errno));
    if (got == 0) damaged(path, "it ends early");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

/// What stands behind a key of the header, which is the text of a Python dict such as
/// {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 64), }
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

/// The text of a string.
std::optional<std::string_view> quoted(std::string_view value) {
  if (value.empty() || (value[0] != '\'' && value[0] != '"')) return std::nullopt;
  const std::size_t end = value.find(value[0], 1);
  if (end == std::string_view::npos) return std::nullopt;
  return value.substr(1, end - 1);
}

/// (60000, 64), (5,) or ()
std::optional<std::vector<std::uint64_t>> tuple_of(std::string_view value) {
  if (value.empty() || value[0] != '(') return std::nullopt;
  std::vector<std::uint64_t> numbers;
  std::uint64_t number = 0;
  bool has_digits = false;
  for (const char c : value.substr(1)) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      if (number > std::uint64_t{1} << 48) return std::nullopt;
      number = 10 * number + static_cast<std::uint64_t>(c - '0');
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

float value_at(const std::byte* at, std::size_t bytes) {
  switch (bytes) {
    case 2: {
      std::uint16_t half = 0;
      std::memcpy(&half, at, 2);
      return float_of_half(half);
    }
    case 4: {
      float value = 0;
      std::memcpy(&value, at, 4);
      return value;
    }
    default: {
      double value = 0;
      std::memcpy(&value, at, 8);
      return static_cast<float>(value);
    }
  }
}

}  // namespace

NpyFile::NpyFile(std::filesystem::path path) : path_(std::move(path)) {
  static_assert(std::endian::native == std::endian::little);
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0)
    throw_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                "cannot read {}: {}", path_.string(), std::strerror(errno));
  try {
    std::array<std::byte, 12> begin{};
    read_at(fd_, path_, 0, std::span(begin).first(10));
    if (std::memcmp(begin.data(), kMagic.data(), kMagic.size()) != 0)
      damaged(path_, "it does not begin like one");
    const auto byte = [&](std::size_t i) { return static_cast<std::uint64_t>(begin[i]); };
    const std::uint64_t version = byte(6);
    if (version < 1 || version > 3)
      throw_error(ErrorCode::kIncompatible, "{} has format {}; 1 to 3 can be read: save it again",
                  path_.string(), version);
    if (version > 1) read_at(fd_, path_, 10, std::span(begin).subspan(10, 2));
    const std::uint64_t length = version == 1
                                     ? byte(8) | byte(9) << 8
                                     : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
    if (length > kLargestHeader) damaged(path_, "its header is too long");
    const std::uint64_t header_begin = version == 1 ? 10 : 12;
    std::string header(length, ' ');
    read_at(fd_, path_, header_begin, std::as_writable_bytes(std::span(header)));
    begin_ = header_begin + length;
    const auto type = quoted(value_of(header, "descr").value_or(""));
    const auto order = value_of(header, "fortran_order");
    const auto shape = tuple_of(value_of(header, "shape").value_or(""));
    if (!type || !order || !shape) damaged(path_, "its header lacks descr, fortran_order or shape");
    if (*type == "<f2") element_bytes_ = 2;
    else if (*type == "<f4") element_bytes_ = 4;
    else if (*type == "<f8") element_bytes_ = 8;
    else
      throw_error(ErrorCode::kIncompatible,
                  "{} has elements of type {}; float16, float32 and float64 can be read: save "
                  "array.astype('float32')",
                  path_.string(), *type);
    if (!order->starts_with("False"))
      throw_error(ErrorCode::kIncompatible,
                  "{} is in Fortran order: save numpy.ascontiguousarray(array)", path_.string());
    if (shape->empty() || shape->size() > 2)
      throw_error(ErrorCode::kIncompatible,
                  "{} has {} dimensions; rows of vectors have 2, numbers 1: save "
                  "array.reshape(len(array), -1)",
                  path_.string(), shape->size());
    rows_ = shape->front();
    columns_ = shape->size() == 2 ? shape->back() : 1;
    struct stat status {};
    if (::fstat(fd_, &status) != 0) damaged(path_, std::strerror(errno));
    const auto wanted = static_cast<unsigned __int128>(rows_) * columns_ * element_bytes_ + begin_;
    if (wanted != static_cast<std::uint64_t>(status.st_size))
      damaged(path_, "its length is not that of " + std::to_string(rows_) + " rows of " +
                         std::to_string(columns_));
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

NpyFile::~NpyFile() { ::close(fd_); }

void NpyFile::read(std::uint64_t first, std::span<float> values) const {
  WEFT_CHECK(
      columns_ > 0 && values.size() % columns_ == 0 && first + values.size() / columns_ <= rows_,
      "{} values from row {} of {}", values.size(), first, path_.string());
  std::vector<std::byte> bytes(values.size() * element_bytes_);
  read_at(fd_, path_, begin_ + first * columns_ * element_bytes_, bytes);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = value_at(bytes.data() + i * element_bytes_, element_bytes_);
}

}  // namespace weft::apps
