#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Returns the number of bytes of the well-formed UTF-8 character that begins at byte `at`, 1 to 4;
/// 0 if there is none: a stray or missing continuation byte, an overlong form, a surrogate, a code
/// point above U+10FFFF, or the end of the text.
std::size_t utf8_length(std::string_view text, std::size_t at);

/// Returns the position of the first byte at which no well-formed UTF-8 character begins;
/// text.size() if the whole text is UTF-8.
std::size_t valid_utf8_prefix(std::string_view text);

/// Returns `text` as a terminal and a log may show it: control characters other than line end and
/// TAB (U+0000 to U+001F, U+007F to U+009F), and bytes that are not UTF-8, stand as escapes of
/// their bytes. A text without any comes back as it is.
///   printable("a\x1b[2J\xff") is "a\\x1b[2J\\xff"
std::string printable(std::string_view text);
/// The same for a text that must stay one line, as a name: line ends are escaped too.
std::string printable_line(std::string_view text);

}  // namespace weft
