#include "apps/data/text_files.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>
#include <system_error>

#include "apps/data/corpus.h"
#include "apps/data/gzip_file.h"
#include "core/base/error.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

/// All files below a folder, sorted; folders of the name `skipped` and what is hidden are left out.
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

std::string read_text(const fs::path& path) {
  std::string text;
  if (path.extension() == ".gz") {
    const std::vector<std::byte> bytes = read_gzip_file(path);
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::erase(text, '\r');
  } else {
    text = text_file(path);
  }
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos)
    throw_error(ErrorCode::kInvalidArgument,
                "{} is not a text: byte {} is zero; save it as UTF-8, or move it out of the folder",
                path.string(), zero);
  return text;
}

std::string named_text(const std::string& name) {
  if (name == "kjv") return kjv_text();
  if (name != "linux-doc" && !fs::is_directory(name))
    return name.ends_with(".gz") ? read_text(name) : text_file(name);
  std::string all;
  for (const fs::path& path : name == "linux-doc" ? linux_doc_files() : files_in(name)) {
    if (!all.empty()) all += all.ends_with('\n') ? "\n" : "\n\n";
    all += read_text(path);
  }
  return all;
}

}  // namespace weft::apps
