#include "apps/data/corpus.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::string_view kInstallHint =
    "install it with `apt-get install bible-kjv bible-kjv-text`, or train on your own text with "
    "`data: "
    "{text: FILE}`";

/// Position after the line end at or after `at`; the text's end when there is none.
std::size_t next_line(std::string_view text, std::size_t at) {
  const std::size_t end = text.find('\n', at);
  return end == std::string_view::npos ? text.size() : end + 1;
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
  if (!pipe) throw_error(ErrorCode::kUnavailable, "cannot start the program `bible`");
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

std::string text_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path))
    throw_error(ErrorCode::kNotFound, "cannot read the text file {}", path.string());
  std::string text(std::istreambuf_iterator<char>(in), {});
  text.erase(std::remove(text.begin(), text.end(), '\r'), text.end());
  return text;
}

TextSplit split_text(std::string_view text, double fraction, int blocks) {
  if (!(fraction > 0 && fraction < 1) || blocks < 1)
    throw_error(ErrorCode::kInvalidArgument, "cannot hold out a fraction {} of a text in {} blocks",
                fraction, blocks);
  TextSplit split;
  const double period = static_cast<double>(text.size()) / blocks;
  std::size_t done = 0;
  for (int block = 0; block < blocks; ++block) {
    // The last `fraction` of each period is held out.
    const std::size_t begin =
        std::max(done, next_line(text, static_cast<std::size_t>((block + 1 - fraction) * period)));
    const std::size_t end =
        block + 1 == blocks
            ? text.size()
            : std::max(begin, next_line(text, static_cast<std::size_t>((block + 1) * period)));
    split.train += text.substr(done, begin - done);
    split.validation += text.substr(begin, end - begin);
    done = end;
  }
  return split;
}

}  // namespace weft::apps
