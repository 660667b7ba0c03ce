#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "core/base/file_lock.h"

namespace weft::apps {

/// Where one run leaves everything it writes. This is the one place that knows the names of its
/// files.
///
/// A path always holds the newest run under that name: prepare() moves an older run aside, to
/// PATH.1, then PATH.2, ... (the highest number is the latest of the old ones), and never touches a
/// folder that is not a run. A run that resumes from a checkpoint inside PATH continues in place.
/// A run that has failed before it left any result does not keep an earlier run's name: its folder
/// becomes PATH.failed, in place of the one before it. `weft run` prepares; the driver and the
/// agents open.
class RunDirectory {
 public:
  /// Creates `path` or moves what is there aside, and locks it while this object lives, so that two
  /// runs never write to one folder. Throws Error(kAlreadyExists) if another run holds it, or it
  /// holds things that no run has written.
  static RunDirectory prepare(const std::filesystem::path& path,
                              const std::optional<std::filesystem::path>& resume_from = {});
  /// A directory that `weft run` has prepared, as it is. Takes no lock. Throws Error(kNotFound) if
  /// there is none.
  static RunDirectory open(const std::filesystem::path& path);

  /// Whether the run has left anything but logs and events.
  bool has_results() const;
  /// For a run that has failed and has no results: moves its folder to PATH.failed, and the earlier
  /// run back to PATH. Does nothing if prepare() moved no run. Returns PATH.failed.
  std::optional<std::filesystem::path> give_back();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path loss_plot() const { return path_ / "loss.svg"; }
  std::filesystem::path timeline() const { return path_ / "timeline.svg"; }
  std::filesystem::path sample() const { return path_ / "sample.txt"; }
  std::filesystem::path scores() const { return path_ / "scores.txt"; }
  /// Run file that the run's processes read: see ConfigDocument::resolved().
  std::filesystem::path config() const { return path_ / "run.yaml"; }
  /// Copies of small files that the run file names, and what the first driver has prepared.
  std::filesystem::path inputs() const { return path_ / "inputs"; }
  /// PreparedData::kept.
  std::filesystem::path prepared() const { return inputs() / "prepared"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path best() const { return path_ / "best.safetensors"; }
  /// Where a run that goes on from an older checkpoint leaves what came after it: PATH/abandoned.1,
  /// then .2, ...; the first free one.
  std::filesystem::path next_abandoned() const;
  std::filesystem::path logs() const { return path_ / "logs"; }

  /// Where prepare() put the run that was here, if there was one. Tell the user.
  const std::optional<std::filesystem::path>& moved_aside() const { return moved_aside_; }

 private:
  RunDirectory(std::filesystem::path path, std::optional<FileLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  std::optional<std::filesystem::path> moved_aside_;
  std::optional<FileLock> lock_;
};

}  // namespace weft::apps
