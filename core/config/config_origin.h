#pragma once

#include <filesystem>
#include <string>

namespace weft {

/// File that a person has written: the document's own, or the one that a resolved document was made
/// of. A value.
struct ConfigOrigin {
  std::string name;            ///< As messages call it: "cluster.yaml".
  std::filesystem::path file;  ///< Absolute.
  std::string sha256;          ///< Of its content when it was read.
  bool is_private = false;     ///< Other users could not read it.

  friend bool operator==(const ConfigOrigin&, const ConfigOrigin&) = default;
};

}  // namespace weft
