#pragma once

#include <string>

#include "core/base/memory_file.h"

namespace weft::actors {

/// Where a child leaves what its parent must know: what ended it, for the terminal, where it
/// listens, or what it has planned. In the memory of the parent, since the disk may be what failed.
/// The parent makes it, names it to the child by an argument, and reads it when the child has
/// ended, or looks at it from time to time. One thread at a time.
class LastWords final {
 public:
  /// Throws Error(kResourceExhausted).
  LastWords() : file_("last words") {}

  /// What the child opens; while this object lives.
  std::string path() const { return file_.path(); }
  /// What was left there; empty if nothing was.
  std::string read() const;

 private:
  MemoryFile file_;
};

/// In the child. Where the place is not there, or cannot be written to, on standard error.
void leave_last_words(const std::string& path, const std::string& text);

}  // namespace weft::actors
