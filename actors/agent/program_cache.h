#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace weft::actors {

/// Name of the folder of kept programs, below a folder of logs.
inline constexpr const char* kPrograms = "programs";

/// Executables of runs, kept with the libraries beside them. A process that is started again in a
/// run uses the same program, even if the original has been rebuilt or removed.
///
///   FOLDER/0123456789abcdef/bin/gpt            first digits of its SHA-256
///   FOLDER/0123456789abcdef/lib/libweft_tls.so
///
/// Files are hard links, or copies where the file system allows no link to the original. Processes
/// that share a folder share the programs. One thread at a time.
class ProgramCache final {
 public:
  /// `folder` is created when the first program is kept; if empty, none is kept. `hashes`: cache of
  /// binary_sha256().
  ProgramCache(std::filesystem::path folder, std::filesystem::path hashes);

  /// Returns the path of the kept program with this name and SHA-256, or nothing.
  std::optional<std::filesystem::path> find(const std::string& name,
                                            const std::string& sha256) const;
  /// Keeps `binary`, whose SHA-256 the caller has just computed. Returns the path from which to
  /// start it, or `binary` itself if it cannot be kept: no room, a folder that allows no execution,
  /// or more than 1 GiB to copy.
  std::filesystem::path keep(const std::filesystem::path& binary, const std::string& sha256) const;
  /// Removes the folder. Call it when no more processes of these programs will be started.
  void remove() const;

 private:
  std::filesystem::path place_of(const std::string& sha256) const;

  const std::filesystem::path folder_, hashes_;
};

}  // namespace weft::actors
