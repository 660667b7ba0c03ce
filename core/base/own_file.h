#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace weft {

// Files and folders that other users of the machine must not have made: tokens, state, caches,
// logs.
//
// Such a thing belongs to this user or to root. A link on the way to it is followed only where no
// other user can write in the link's folder: not in /tmp, but in a mount that is read-only. All
// throw Error(kFailedPrecondition), with the path and what to do, for anything else. Any thread.

/// Opens as open(2) does, with O_CLOEXEC: returns the descriptor, or -1 and errno. Where others can
/// write in the folder, a file to be written must have no second name.
int open_own(const std::filesystem::path& path, int flags, mode_t mode = 0600);

/// Looks at a file or folder, where there is one. `remedy` ends the message.
void check_own(const std::filesystem::path& path, const std::string& remedy);

/// Makes a folder, and the ones above it, for this user alone; one that is there is checked.
void make_own_folder(const std::filesystem::path& folder);

/// TEMPORARY/weft-UID, made if it is not there: of this user alone, for what has no other place.
/// `why` begins the message: "neither HOME nor XDG_STATE_HOME is set".
std::filesystem::path own_temporary_folder(const std::filesystem::path& temporary,
                                           const std::string& why);

/// The file's text, at most 64 KiB of it, or nothing where there is no file. `what`: "token file",
/// and `hint` what to do when it cannot be read. Also throws where others may read it; `open_hint`
/// says what to do then.
std::optional<std::string> read_own_file(const std::filesystem::path& path, const std::string& what,
                                         const std::string& hint, const std::string& open_hint);

/// Puts it there whole, mode 0600, in place of any other.
void write_own_file(const std::filesystem::path& path, const std::string& text,
                    const std::string& what);

}  // namespace weft
