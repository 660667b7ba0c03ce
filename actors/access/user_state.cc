#include "actors/access/user_state.h"

#include <cstdlib>
#include <optional>

#include "core/base/error.h"
#include "core/base/private_file.h"

namespace weft::actors {

std::filesystem::path user_state_directory() {
  const auto absolute = [](const char* variable) -> std::optional<std::filesystem::path> {
    const char* path = std::getenv(variable);
    return path != nullptr && path[0] == '/' ? std::optional<std::filesystem::path>(path)
                                             : std::nullopt;
  };
  if (const auto state_home = absolute("XDG_STATE_HOME")) return *state_home / "weft";
  if (const auto home = absolute("HOME")) return *home / ".local" / "state" / "weft";
  return private_temporary_folder("/tmp", "neither HOME nor XDG_STATE_HOME is set");
}

std::filesystem::path hash_directory() {
  try {
    std::filesystem::path folder = user_state_directory() / "hashes";
    create_private_folder(folder);
    return folder;
  } catch (const Error&) {
    return "";
  }
}

}  // namespace weft::actors
