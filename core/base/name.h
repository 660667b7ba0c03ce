#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace weft {

/// Rule for all names that users give: runs, hosts, meshes and their axes. Names become parts of
/// paths, log lines and command lines. A name is 1 to 100 letters, digits, '_', '-' and '.', and
/// does not begin with '-' or '.'.
inline constexpr std::string_view kNameRule =
    "a name of at most 100 letters, digits, '_', '-' and '.' that does not begin with '-' or '.'";

constexpr bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !text.empty() && text.size() <= 100 &&
         text.find_first_not_of(kAllowed) == std::string_view::npos && text[0] != '.' &&
         text[0] != '-';
}

/// Returns "a mesh name: expected a name of ..., found '../x'"; truncates a long text.
inline std::string invalid_name_message(std::string_view what, std::string_view found) {
  return fmt::format("{}: expected {}, found '{}'{}", what, kNameRule, found.substr(0, 100),
                     found.size() > 100 ? "..." : "");
}

/// Throws Error(kInvalidArgument) unless `text` is a name. For text from the network or a command
/// line.
inline void check_name(std::string_view what, std::string_view text) {
  if (!is_name(text)) throw Error(ErrorCode::kInvalidArgument, invalid_name_message(what, text));
}

}  // namespace weft
