#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/data/text_data_config.h"

namespace weft::apps {

/// The documentation of Linux 6.1: of the Debian package linux-doc-6.1 its .rst.gz files, without
/// translations/, by path. Throws Error(kFailedPrecondition) naming the package where it is not
/// installed. `files`: where the package has them.
std::vector<std::filesystem::path> linux_doc_files(
    const std::filesystem::path& files = "/usr/share/doc/linux-doc-6.1/Documentation");

/// The files of a folder and its subfolders, by path, but for what is hidden. Throws
/// Error(kNotFound) if there is no such folder, Error(kInvalidArgument) if it has no files.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

/// How the bytes of a file become a text.
enum class TextForm : std::uint8_t {
  /// UTF-8 characters with "\n" line ends: a byte order mark at the beginning is left out; CR LF
  /// and CR become "\n". A file with a zero byte or with bytes that are not UTF-8 is refused.
  kCharacters,
  /// Every byte as it is. Only a file of token ids is refused.
  kBytes,
};

/// Returns the form that the tokenizer of `config` takes.
TextForm text_form(const TextDataConfig& config);

/// Returns the text of one file; unpacked where its name ends in .gz, and then at most 1 GiB.
/// Throws Error(kInvalidArgument), naming the byte, if it is not a text of that form;
/// Error(kNotFound) or Error(kDataLoss) if it cannot be read.
std::string read_text(const std::filesystem::path& path, TextForm form = TextForm::kCharacters);

/// Returns what `data.text` names: "kjv", "linux-doc", a text file, or a folder of them, one after
/// the other with an empty line between. Throws what the functions above throw, and kjv_text().
std::string named_text(const std::string& name, TextForm form = TextForm::kCharacters);

}  // namespace weft::apps
