#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace weft {

// Files and folders that must not be under the control of another user of the machine: tokens,
// state, caches, logs.
//
// A trusted file belongs to this user or to root. A link in its path is followed only if no other
// user can write to the link's folder (so not in /tmp) or the folder's mount is read-only. All
// functions throw Error(kFailedPrecondition) otherwise, with the path and a remedy. Thread-safe.

/// Opens a file like open(2), with O_CLOEXEC. Returns the descriptor, or -1 and errno. Rejects a
/// file to be written that has several hard links if other users can write to its folder.
int open_trusted(const std::filesystem::path& path, int flags, mode_t mode = 0600);

/// Checks the owner of a file or folder, if it exists. `remedy` ends the message.
void check_trusted_owner(const std::filesystem::path& path, const std::string& remedy);

/// Creates a folder and its missing parents for this user alone (mode 0700). Checks the owner of an
/// existing folder.
void create_private_folder(const std::filesystem::path& folder);

/// Returns the folder TEMPORARY/weft-UID, accessible by this user alone, and creates it if missing.
/// Used if there is no better place. `why` begins the message: "neither HOME nor XDG_STATE_HOME is
/// set".
std::filesystem::path private_temporary_folder(const std::filesystem::path& temporary,
                                               const std::string& why);

/// Returns the first 64 KiB of a file's text, or nullopt if the file does not exist. `what` names
/// the file in messages ("token file"); `hint` says what to do if it cannot be read. Throws if
/// other users have any access to it; `open_hint` says what to do then.
std::optional<std::string> read_private_file(const std::filesystem::path& path,
                                             const std::string& what, const std::string& hint,
                                             const std::string& open_hint);

/// Writes a file atomically with mode 0600, replacing an existing one. Throws
/// Error(kFailedPrecondition), which ends with `hint`.
void write_private_file(const std::filesystem::path& path, const std::string& text,
                        const std::string& what, const std::string& hint);

}  // namespace weft
