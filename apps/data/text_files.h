#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/data/text_data_config.h"

namespace weft::apps {

/// Returns the documentation of Linux 6.1: the .rst.gz files of the Debian package linux-doc-6.1,
/// without translations/, sorted by path. `files` is the package's folder. Throws
/// Error(kFailedPrecondition), which names the package, if it is not installed.
std::vector<std::filesystem::path> linux_doc_files(
    const std::filesystem::path& files = "/usr/share/doc/linux-doc-6.1/Documentation");

/// Returns the files of a folder and its subfolders that are not hidden, sorted by path. Throws
/// Error(kNotFound) if the folder does not exist, Error(kInvalidArgument) if it has no files.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

/// Conversion from the bytes of a file to a text.
enum class TextForm : std::uint8_t {
  /// UTF-8 characters with "\n" line ends. Removes a byte order mark and converts CR LF and CR to
  /// "\n". Rejects a file with a zero byte or invalid UTF-8.
  kCharacters,
  /// Every byte as it is. Rejects only files of token ids.
  kBytes,
};

/// Returns the form that the tokenizer of `config` needs.
TextForm text_form(const TextDataConfig& config);

/// Returns the text of one file. Decompresses it if its name ends in .gz, to at most 1 GiB. Throws
/// Error(kInvalidArgument), which names the byte, if it is not a text of that form. Throws
/// Error(kNotFound) or Error(kDataLoss) if it cannot be read.
std::string read_text(const std::filesystem::path& path, TextForm form = TextForm::kCharacters);

/// Returns the text that `data.text` names: "kjv", "linux-doc", a text file, or a folder. A
/// folder's files are joined with an empty line between them. Throws as read_text(), files_in(),
/// linux_doc_files() and kjv_text() do.
std::string load_text(const std::string& name, TextForm form = TextForm::kCharacters);

}  // namespace weft::apps
