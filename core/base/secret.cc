#include "core/base/secret.h"

#include "core/base/error.h"
#include "core/base/platform.h"

namespace weft {

Secret Secret::random() {
  Bytes bytes{};
  fill_with_random(bytes);
  return Secret(bytes);
}

Secret Secret::parse(std::string_view hexadecimal) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  Bytes bytes{};
  bool good = hexadecimal.size() == 2 * kBytes;
  for (std::size_t i = 0; good && i < hexadecimal.size(); ++i) {
    const auto digit = kDigits.find(hexadecimal[i]);
    good = digit != std::string_view::npos;
    if (good) bytes[i / 2] = bytes[i / 2] << 4 | static_cast<std::byte>(digit);
  }
  if (!good || bytes == Bytes{})
    throw_error(ErrorCode::kInvalidArgument,
                "expected {} hexadecimal digits in lower case, not all of them 0; the text has {} "
                "characters",
                2 * kBytes, hexadecimal.size());
  return Secret(bytes);
}

std::string Secret::hexadecimal() const {
  std::string text;
  for (const std::byte each : bytes_)
    text += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  return text;
}

bool equal_in_constant_time(std::span<const std::byte> one, std::span<const std::byte> other) {
  if (one.size() != other.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    difference = difference | std::to_integer<unsigned char>(one[i] ^ other[i]);
  return difference == 0;
}

}  // namespace weft
