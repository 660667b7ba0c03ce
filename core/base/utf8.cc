#include "core/base/utf8.h"

#include <fmt/format.h>

#include <iterator>

namespace weft {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// Returns true if the `length` bytes at `at` are a control character.
bool is_control(std::string_view text, std::size_t at, std::size_t length) {
  const unsigned char first = byte_at(text, at);
  if (length == 1) return first < 0x20 || first == 0x7f;
  return length == 2 && first == 0xc2 && byte_at(text, at + 1) < 0xa0;  // U+0080 to U+009F
}

/// Escapes control characters except those in `kept`, and bytes that are not UTF-8.
std::string escaped(std::string_view text, std::string_view kept) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    at += character.size();
    const bool is_kept = length == 1 && kept.find(character) != std::string_view::npos;
    if (is_kept || (length != 0 && !is_control(character, 0, length))) {
      shown += character;
      continue;
    }
    for (const char byte : character)
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return shown;
}

/// Returns the length of the sequence that begins with the byte `first`; 0 if none does.
std::size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first >= 0xf5) return 0;
  return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  if (at >= text.size()) return 0;
  const unsigned char first = byte_at(text, at);
  const std::size_t length = sequence_length(first);
  if (length <= 1) return length;
  if (at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, at + i) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte_at(text, at + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool beyond = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (const std::size_t length = utf8_length(text, at)) at += length;
  return at;
}

std::string printable(std::string_view text) { return escaped(text, "\n\t"); }
std::string printable_line(std::string_view text) { return escaped(text, "\t"); }

}  // namespace weft
