#pragma once

#include <filesystem>
#include <string>

namespace weft {

/// File written by the user: the document itself, or the source of a resolved document.
struct ConfigOrigin {
  std::string name;            ///< Name in messages: "cluster.yaml".
  std::filesystem::path file;  ///< Absolute path.
  std::string sha256;          ///< SHA-256 of the content when it was read.
  bool is_private = false;     ///< True if other users had no read permission.

  friend bool operator==(const ConfigOrigin&, const ConfigOrigin&) = default;
};

}  // namespace weft
