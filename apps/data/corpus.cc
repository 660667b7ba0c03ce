#include "apps/data/corpus.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::string_view kInstallHint =
    "install it with `apt-get install bible-kjv bible-kjv-text`, or train on your own text with "
    "`data: "
    "{text: FILE}`";

/// Returns the position after the first line end at or after `at`, or the text's end.
std::size_t next_line(std::string_view text, std::size_t at) {
  const std::size_t end = text.find('\n', at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

/// Returns the position after the first space at or after `at`, or the text's end.
std::size_t next_word(std::string_view text, std::size_t at) {
  const std::size_t end = text.find_first_of(" \n\t", at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

/// Returns the position of the first character that begins at or after `at`.
std::size_t next_character(std::string_view text, std::size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

/// Splits the text at positions given by `next_cut`. Holds out the last `fraction` of each block.
TextSplit split_at(std::size_t (*next_cut)(std::string_view, std::size_t), std::string_view text,
                   double fraction, int blocks) {
  TextSplit split;
  const double period = static_cast<double>(text.size()) / blocks;
  std::size_t done = 0;
  for (int block = 0; block < blocks; ++block) {
    const std::size_t begin =
        std::max(done, next_cut(text, static_cast<std::size_t>((block + 1 - fraction) * period)));
    const std::size_t end =
        block + 1 == blocks
            ? text.size()
            : std::max(begin, next_cut(text, static_cast<std::size_t>((block + 1) * period)));
    split.train += text.substr(done, begin - done);
    split.validation += text.substr(begin, end - begin);
    done = end;
  }
  return split;
}

/// Returns true if the held-out share is between half of `fraction` and twice `fraction`.
bool holds_out(const TextSplit& split, double fraction) {
  const double held = static_cast<double>(split.validation.size());
  const double wanted = fraction * (held + static_cast<double>(split.train.size()));
  return held >= wanted / 2 && held <= 2 * wanted;
}

}  // namespace

std::string clean_verses(std::string_view printed) {
  std::string text;
  text.reserve(printed.size());
  std::string_view chapter;
  for (std::size_t begin = 0; begin < printed.size();) {
    const std::size_t end = next_line(printed, begin);
    std::string_view line = printed.substr(begin, end - begin);
    begin = end;
    const std::size_t space = line.find(' ');
    const std::size_t colon = line.substr(0, space).rfind(':');
    if (space == std::string_view::npos || colon == std::string_view::npos) continue;
    if (!chapter.empty() && chapter != line.substr(0, colon)) text += '\n';
    chapter = line.substr(0, colon);
    text += line.substr(space + 1);
  }
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

std::string kjv_text() {
  const auto close = [](std::FILE* pipe) { ::pclose(pipe); };
  std::unique_ptr<std::FILE, decltype(close)> pipe(
      ::popen("bible -f gen1:1-rev22:21 </dev/null 2>/dev/null", "r"), close);
  if (!pipe)
    throw_error(ErrorCode::kUnavailable, "cannot start the program `bible`: {}; {}",
                std::strerror(errno), kInstallHint);
  std::string printed;
  char buffer[1 << 16];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe.get()))
    printed.append(buffer, count);
  std::string text = clean_verses(printed);
  constexpr std::size_t kLeast = 4'000'000;
  if (text.size() < kLeast)
    throw_error(ErrorCode::kFailedPrecondition,
                "the program `bible` printed {} bytes of text, expected over {}: {}", text.size(),
                kLeast, kInstallHint);
  return text;
}

TextSplit split_text(std::string_view text, double fraction, int blocks) {
  if (!(fraction > 0 && fraction < 1) || blocks < 1)
    throw_error(ErrorCode::kInvalidArgument, "cannot hold out a fraction {} of a text in {} blocks",
                fraction, blocks);
  TextSplit split = split_at(next_line, text, fraction, blocks);
  if (!holds_out(split, fraction)) split = split_at(next_word, text, fraction, blocks);
  if (!holds_out(split, fraction)) split = split_at(next_character, text, fraction, blocks);
  return split;
}

}  // namespace weft::apps
