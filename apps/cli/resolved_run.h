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

/// Run file as it was read once for a run, with the content of the small files that it names
/// (schedules, strategies). All processes of the run get it from here, so that an edit of the
/// originals has no effect on a run that lasts. One thread at a time.
class ResolvedRun final {
 public:
  /// `text`: of ConfigDocument::resolved(), as the app's check has left it. Reads the small files.
  /// Throws Error(kInvalidConfig).
  explicit ResolvedRun(const std::string& text);

  ConfigDocument& document() { return document_; }
  /// Files of people that were read: the run file and the small ones.
  std::vector<actors::ReadFile> read_files() const;
  /// Writes the run file and the copies of the small files into a run's folder, for this user alone
  /// if the original was private. Where the disk refuses (it may be full), keeps them in the memory
  /// of this process and says so on standard error. Returns the run file for the run's processes,
  /// valid while this object lives.
  std::filesystem::path write(const RunDirectory& directory);

 private:
  struct Input {
    ConfigDocument::InputFile place;
    std::string content;
    bool is_private = false;  ///< Not everybody may read it.
  };
  void write_to_disk(const RunDirectory& directory);
  std::filesystem::path keep_in_memory();

  ConfigDocument document_;
  std::vector<Input> inputs_;
  std::list<MemoryFile> in_memory_;
};

}  // namespace weft::apps
