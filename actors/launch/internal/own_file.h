#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace weft::actors::internal {

// Files that are for their owner alone.

/// Makes a folder, and the ones above it, for this user alone. Throws Error(kFailedPrecondition).
void make_own_folder(const std::filesystem::path& folder);

/// The file's text, at most 64 KiB of it, or nothing where there is no file. `what`: "token file",
/// and `hint` what to do when it cannot be read. Throws Error(kFailedPrecondition), also where
/// others may read it; `open_hint` says what to do then.
std::optional<std::string> read_own_file(const std::filesystem::path& path, const std::string& what,
                                         const std::string& hint, const std::string& open_hint);

/// Puts it there whole, mode 0600, in place of any other. Throws Error(kFailedPrecondition).
void write_own_file(const std::filesystem::path& path, const std::string& text,
                    const std::string& what);

}  // namespace weft::actors::internal
