#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Returns the number of bytes, 1 to 4, of the well-formed UTF-8 character that begins at byte
/// `at`. Returns 0 if there is none: a stray or missing continuation byte, an overlong form, a
/// surrogate, a code point above U+10FFFF, or the end of the text.
std::size_t utf8_length(std::string_view text, std::size_t at);

/// Returns the length of the longest valid UTF-8 prefix; text.size() if the whole text is valid.
std::size_t valid_utf8_prefix(std::string_view text);

/// Returns `text` in a form that is safe for terminals and logs. Control characters other than line
/// end and TAB (U+0000 to U+001F, U+007F to U+009F) and bytes that are not UTF-8 become escapes.
///   printable("a\x1b[2J\xff") is "a\\x1b[2J\\xff"
std::string printable(std::string_view text);
/// Returns the same for a text that must stay on one line, such as a name: escapes line ends too.
std::string printable_line(std::string_view text);

}  // namespace weft
