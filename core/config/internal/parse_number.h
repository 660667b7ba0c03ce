#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace weft::internal {

/// Parses a whole text as a number, with or without a plus sign. Returns nothing if it is none.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace weft::internal
