#include "core/config/located_text.h"

namespace weft {

LocatedText LocatedText::trimmed() const {
  const std::size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {{}, line, column};
  return sub(from, text.find_last_not_of(" \t\r") + 1 - from);
}

std::vector<LocatedText> split(const LocatedText& text, char separator) {
  std::vector<LocatedText> parts;
  std::size_t from = 0;
  while (true) {
    const std::size_t to = text.text.find(separator, from);
    parts.push_back(text.sub(from, to == std::string_view::npos ? to : to - from));
    if (to == std::string_view::npos) return parts;
    from = to + 1;
  }
}

std::vector<LocatedText> name_in_words(const LocatedText& text) {
  std::vector<LocatedText> words;
  for (const LocatedText& part : split(text, ' ')) {
    if (!part.trimmed().text.empty()) words.push_back(part.trimmed());
  }
  return words;
}

std::vector<LocatedText> lines_of(std::string_view text) {
  std::vector<LocatedText> lines;
  int line = 1;
  for (const LocatedText& part : split({text, 1, 1}, '\n')) lines.push_back({part.text, line++, 1});
  return lines;
}

}  // namespace weft
