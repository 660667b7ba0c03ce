#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace weft::actors {

/// Folder of kept programs below a folder of logs.
inline constexpr const char* kPrograms = "programs";

/// Executables that runs were started with, kept with the libraries beside them: what is started
/// again in a run is the same program, although somebody has built or removed it meanwhile.
///
///   FOLDER/0123456789abcdef/bin/gpt            first digits of its SHA-256
///   FOLDER/0123456789abcdef/lib/libweft_tls.so
///
/// Files are hard links, which cost nothing, or copies where the file system has no links to the
/// original. Processes that share a folder share the programs. One thread at a time.
class KeptPrograms final {
 public:
  /// `folder`: is made when the first program is kept; empty: none is kept. `hashes`: see
  /// binary_sha256().
  KeptPrograms(std::filesystem::path folder, std::filesystem::path hashes);

  /// Path of a program that is kept; nothing if none of that name and SHA-256 is.
  std::optional<std::filesystem::path> find(const std::string& name,
                                            const std::string& sha256) const;
  /// Keeps `binary`, whose SHA-256 the caller has just found, and returns the path from which to
  /// start it: `binary` itself where it cannot be kept (no room, a folder whose programs may not be
  /// executed, libraries of more than 1 GiB that would have to be copied).
  std::filesystem::path keep(const std::filesystem::path& binary, const std::string& sha256) const;
  /// Removes the folder: no process of these programs is started any more.
  void remove() const;

 private:
  std::filesystem::path place_of(const std::string& sha256) const;

  const std::filesystem::path folder_, hashes_;
};

}  // namespace weft::actors
