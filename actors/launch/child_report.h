#pragma once

#include <string>

#include "core/base/memory_file.h"

namespace weft::actors {

/// Report of a child to its parent: the error that ended it, its address, or the result of its
/// check. Stored in the parent's memory, as the disk may be what failed. The parent makes it,
/// passes its path as an argument, and reads it after the child's end, or polls it. One thread at a
/// time.
class ChildReport final {
 public:
  /// Throws Error(kResourceExhausted).
  ChildReport() : file_("last words") {}

  /// Returns the file that the child opens; valid while this object lives.
  std::string path() const { return file_.path(); }
  /// Returns the child's text; empty if there is none.
  std::string read() const;

 private:
  MemoryFile file_;
};

/// Writes the report, in the child; on standard error if the file cannot be written.
void write_child_report(const std::string& path, const std::string& text);

}  // namespace weft::actors
