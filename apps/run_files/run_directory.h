#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "core/base/file_lock.h"

namespace weft::apps {

/// Folder with all files of a run. The only place that defines their names.
///
/// A path always holds the newest run under that name. prepare() moves an older run to PATH.1,
/// PATH.2, ..., of which the highest number is the latest, and refuses a folder that is not a
/// run's. A run that resumes from a checkpoint inside PATH continues in place. A run that fails
/// without results does not keep an earlier run's name: its folder becomes PATH.failed and replaces
/// an earlier one there. `weft run` calls prepare(); the driver and the agents call open().
class RunDirectory {
 public:
  /// Creates `path`, moving an earlier run aside, and locks it while this object lives. Throws
  /// Error(kAlreadyExists) if another run holds the lock or the folder has files that no run has
  /// written.
  static RunDirectory prepare(const std::filesystem::path& path,
                              const std::optional<std::filesystem::path>& resume_from = {});
  /// Opens a folder that `weft run` has prepared. Takes no lock. Throws Error(kNotFound) if it does
  /// not exist.
  static RunDirectory open(const std::filesystem::path& path);

  /// Returns true if the run has written anything but logs and events.
  bool has_results() const;
  /// Handles a run that has failed without results: moves its folder to PATH.failed and the earlier
  /// run back to PATH. Does nothing if prepare() moved no run. Returns PATH.failed.
  std::optional<std::filesystem::path> restore_earlier_run();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path loss_plot() const { return path_ / "loss.svg"; }
  std::filesystem::path timeline() const { return path_ / "timeline.svg"; }
  std::filesystem::path sample() const { return path_ / "sample.txt"; }
  std::filesystem::path scores() const { return path_ / "scores.txt"; }
  /// Run file that the run's processes read; see ConfigDocument::resolved().
  std::filesystem::path config() const { return path_ / "run.yaml"; }
  /// Folder with copies of small files that the run file names, and the first driver's prepared
  /// data.
  std::filesystem::path inputs() const { return path_ / "inputs"; }
  /// File with PreparedData::restart_data.
  std::filesystem::path prepared() const { return inputs() / "prepared"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path best() const { return path_ / "best.safetensors"; }
  /// Returns the first free folder PATH/abandoned.1, .2, ..., to which a run that resumes from an
  /// older checkpoint moves the later steps.
  std::filesystem::path next_abandoned_folder() const;
  std::filesystem::path logs() const { return path_ / "logs"; }

  /// Folder to which prepare() moved an earlier run, if there was one. Tell the user.
  const std::optional<std::filesystem::path>& moved_aside() const { return moved_aside_; }

 private:
  RunDirectory(std::filesystem::path path, std::optional<FileLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  std::optional<std::filesystem::path> moved_aside_;
  std::optional<FileLock> lock_;
};

}  // namespace weft::apps
