#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weft::apps {

/// Identity of the checkpoint from which another checkpoint, or a run, resumed.
struct ParentCheckpoint {
  std::int64_t step = 0;
  /// Hash of its checkpoint.json, which contains the hashes of its files and its own parent.
  std::string sha256 = {};

  friend bool operator==(const ParentCheckpoint&, const ParentCheckpoint&) = default;
};

/// Identifies a checkpoint. Throws Error(kNotFound) if it does not exist.
ParentCheckpoint checkpoint_identity(const std::filesystem::path& checkpoint);
/// Returns the parent that a checkpoint's description names; nullopt for the first of a run.
std::optional<ParentCheckpoint> parent_of(const std::filesystem::path& checkpoint);

/// Arguments of begin_branch(). A run resumes from checkpoint `from` and owns `folder`, with its
/// checkpoints, from that step on. Later checkpoints of the abandoned branch move to
/// `move_target`/checkpoints; nothing is deleted.
///
///   before:  step-4 step-8 step-12
///   after:   step-4               move_target/checkpoints: step-8 step-12       (from = step-4)
///
/// The abandoned branch's metrics are copied to `move_target` in full, so that `move_target` is a
/// complete run's folder. folder/branch.json records the progress. After a crash,
/// find_checkpoint() returns `from`, and the next call of begin_branch() continues the move.
struct BranchMove {
  std::filesystem::path folder;
  std::filesystem::path from;
  /// Target of the move. Must not exist, unless a crash interrupted a move to it.
  std::filesystem::path move_target;
  /// True if the abandoned branch has metrics that would be lost. `keep_metrics` then copies them
  /// before anything moves. Called again after a crash.
  bool metrics_differ = false;
  std::function<void(const std::filesystem::path& move_target)> keep_metrics = {};
  /// Called after the move; makes the run's metrics those that lead to `from`.
  std::function<void()> install_metrics = {};
  /// Called after each change on disk. Tests end the process there.
  std::function<void(std::string_view point)> progress = {};
};
/// Moves the abandoned branch. Returns its new folder, or nullopt if nothing had to move. Throws
/// Error(kUnavailable) if the disk refuses.
std::optional<std::filesystem::path> begin_branch(const BranchMove& move);

/// Returns the newest checkpoint of a folder's current branch, by branch.json and the folder's
/// contents. Returns nullopt if there is none.
std::optional<std::filesystem::path> head_of_branch(const std::filesystem::path& folder);

}  // namespace weft::apps
