#pragma once

#include <filesystem>
#include <list>
#include <string>
#include <vector>

#include "actors/launch/edit_watch.h"
#include "apps/run_files/run_directory.h"
#include "core/base/memory_file.h"
#include "core/config/config_document.h"

namespace weft::apps {

/// Run file as read once for a run, with the contents of the small files that it names (schedules,
/// strategies). All processes of the run read them from here, so that later edits of the originals
/// have no effect. Used by one thread at a time.
class ResolvedRun final {
 public:
  /// `text` is the result of ConfigDocument::resolved() after the app's check. Reads the small
  /// files. Throws Error(kInvalidConfig).
  explicit ResolvedRun(const std::string& text);

  ConfigDocument& document() { return document_; }
  /// Lists the user's files that were read: the run file and the small files.
  std::vector<actors::ReadFile> read_files() const;
  /// Writes the run file and copies of the small files into a run's folder, readable by the user
  /// only if the original was private. If the disk refuses, keeps them in this process's memory and
  /// prints a warning to stderr. Returns the path of the run file for the run's processes, valid
  /// while this object lives.
  std::filesystem::path write(const RunDirectory& directory);

 private:
  struct InputCopy {
    ConfigDocument::InputFileValue place;
    std::string content;
    bool is_private = false;  ///< True if others may not read it.
  };
  void write_to_disk(const RunDirectory& directory);
  std::filesystem::path keep_in_memory();

  ConfigDocument document_;
  std::vector<InputCopy> inputs_;
  std::list<MemoryFile> in_memory_;
};

}  // namespace weft::apps
