#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft::apps {

/// The documentation of Linux 6.1: of the Debian package linux-doc-6.1 its .rst.gz files, without
/// translations/, by path. Throws Error(kFailedPrecondition) naming the package where it is not
/// installed. `files`: where the package has them.
std::vector<std::filesystem::path> linux_doc_files(
    const std::filesystem::path& files = "/usr/share/doc/linux-doc-6.1/Documentation");

/// The files of a folder and its subfolders, by path, but for what is hidden. Throws
/// Error(kNotFound) if there is no such folder, Error(kInvalidArgument) if it has no files.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

/// The text of one file among others, with "\n" line ends; unpacked where its name ends in .gz, and
/// then at most 1 GiB. Throws Error(kInvalidArgument) if it is not text, Error(kNotFound) or
/// Error(kDataLoss) if it cannot be read.
std::string read_text(const std::filesystem::path& path);

/// What `data.text` names: "kjv", "linux-doc", a text file, or a folder of them, one after the
/// other with an empty line between. Throws what the functions above throw, kjv_text() and
/// text_file().
std::string named_text(const std::string& name);

}  // namespace weft::apps
