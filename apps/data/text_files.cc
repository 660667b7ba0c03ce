#include "apps/data/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "apps/data/corpus.h"
#include "apps/data/gzip_file.h"
#include "apps/data/token_file.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

/// Returns all files below a folder, sorted. Skips hidden entries and folders named `skipped`.
std::vector<fs::path> files_below(const fs::path& folder, std::string_view skipped) {
  std::vector<fs::path> files;
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') || (entry->is_directory() && name == skipped))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file()) files.push_back(entry->path());
  }
  if (failed)
    throw_error(ErrorCode::kUnavailable, "cannot read the folder {}: {}", folder.string(),
                failed.message());
  std::ranges::sort(files);
  return files;
}

std::string bytes_of_file(const fs::path& path) {
  if (path.extension() == ".gz") {
    const std::vector<std::byte> bytes = read_gzip_file(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path))
    throw_error(ErrorCode::kNotFound, "cannot read the text file {}", path.string());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Returns the position of the first byte that is zero or invalid UTF-8, or the file's size.
std::size_t first_bad_byte(std::string_view text) {
  return std::min(text.find('\0'), valid_utf8_prefix(text));
}

/// Returns true if the file holds token ids: Weft's token file, or a .bin file that is not a text.
bool is_token_file(const fs::path& path, std::string_view bytes) {
  return TokenFile::is_token_file(bytes) ||
         (path.extension() == ".bin" && first_bad_byte(bytes) < bytes.size());
}

[[noreturn]] void refuse_token_file(const fs::path& path) {
  throw_error(ErrorCode::kInvalidArgument,
              "{} is not a text: it holds token ids, as its {} shows; name the text that they were "
              "made from",
              path.string(), path.extension() == ".bin" ? "name" : "beginning");
}

void check_characters(const fs::path& path, std::string_view text) {
  const std::size_t at = first_bad_byte(text);
  if (at >= text.size()) return;
  if (is_token_file(path, text)) refuse_token_file(path);
  const auto byte = static_cast<unsigned char>(text[at]);
  throw_error(ErrorCode::kInvalidArgument,
              "{} is not a text in UTF-8: byte {} is {}; convert it with `iconv -f ENCODING -t "
              "UTF-8`, leave it out, or train on its bytes with `tokenizer: bytes`",
              path.string(), at, byte == 0 ? "zero" : fmt::format("0x{:02x}", byte));
}

/// Removes a byte order mark and converts every line end to "\n".
void normalise_text(std::string& text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  std::size_t to = text.find('\r');
  if (to == std::string::npos) return;
  for (std::size_t from = to; from < text.size(); ++from) {
    if (text[from] == '\r' && from + 1 < text.size() && text[from + 1] == '\n') continue;
    text[to++] = text[from] == '\r' ? '\n' : text[from];
  }
  text.resize(to);
}

}  // namespace

std::vector<fs::path> linux_doc_files(const fs::path& files) {
  std::vector<fs::path> found;
  if (fs::is_directory(files)) found = files_below(files, "translations");
  std::erase_if(found, [](const fs::path& path) { return !path.string().ends_with(".rst.gz"); });
  if (found.empty())
    throw_error(ErrorCode::kFailedPrecondition,
                "there are no .rst.gz files in {}: install the texts with `apt-get install "
                "--no-install-recommends linux-doc-6.1` (37 MB), or name a folder of your own "
                "texts; where apt is told to leave documentation out, remove its path-exclude for "
                "/usr/share/doc first",
                files.string());
  return found;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw_error(ErrorCode::kNotFound, "there is no folder {}", folder.string());
  std::vector<fs::path> files = files_below(folder, "");
  if (files.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "{} has no files: put texts, PNG pictures or .parquet files there",
                folder.string());
  return files;
}

TextForm text_form(const TextDataConfig& config) {
  return config.tokenizer == TextDataConfig::TokenizerKind::kBytes ? TextForm::kBytes
                                                                   : TextForm::kCharacters;
}

std::string read_text(const fs::path& path, TextForm form) {
  std::string text = bytes_of_file(path);
  if (form == TextForm::kCharacters) {
    check_characters(path, text);
    normalise_text(text);
  } else if (is_token_file(path, text)) {
    refuse_token_file(path);
  }
  return text;
}

std::string load_text(const std::string& name, TextForm form) {
  if (name == "kjv") return kjv_text();
  if (name != "linux-doc" && !fs::is_directory(name)) return read_text(name, form);
  std::string all;
  for (const fs::path& path : name == "linux-doc" ? linux_doc_files() : files_in(name)) {
    if (!all.empty()) all += all.ends_with('\n') ? "\n" : "\n\n";
    all += read_text(path, form);
  }
  return all;
}

}  // namespace weft::apps
