#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/base/mapped_file.h"

namespace weft::apps {

/// File of token ids, mapped into memory and identified by the SHA-256 of its ids. Callable from
/// any thread.
///
/// Layout, little-endian:
///   magic "WEFTTOK1" | u32 bytes per id (2 or 4) | u32 vocabulary | u64 count
///   | 64 hexadecimal digits of SHA-256 of the ids | ids
/// Written once, under a temporary name that is then renamed, and never changed.
class TokenFile {
 public:
  /// Writes a file. Ids must be in [0, vocabulary). Uses two bytes per id if `vocabulary` allows.
  static void write(const std::filesystem::path& path, std::span<const std::int32_t> ids,
                    int vocabulary);

  /// Returns true if the bytes begin with the magic of a token file.
  static bool is_token_file(std::string_view bytes);

  /// Maps a file and checks its header and size, but not the hash (see verify()). Throws
  /// Error(kNotFound) or Error(kDataLoss).
  explicit TokenFile(const std::filesystem::path& path);

  std::size_t size() const { return count_; }
  int vocabulary() const { return vocabulary_; }
  /// Returns the hash in the header.
  const std::string& sha256() const { return sha256_; }
  std::int32_t operator[](std::size_t i) const;
  /// Reads ids [begin, begin + out.size()).
  void read(std::size_t begin, std::span<std::int32_t> out) const;
  /// Throws Error(kDataLoss) if the ids do not have the header's hash.
  void verify() const;

 private:
  std::filesystem::path path_;
  MappedFile mapped_;
  std::size_t count_ = 0;
  int id_bytes_ = 0;
  int vocabulary_ = 0;
  std::string sha256_;
};

}  // namespace weft::apps
