#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weft::apps {

/// Which checkpoint another one, or a run, has gone on from. A value.
struct ParentCheckpoint {
  std::int64_t step = 0;
  /// Of its checkpoint.json, which states the hashes of its files and names its own parent.
  std::string sha256 = {};

  friend bool operator==(const ParentCheckpoint&, const ParentCheckpoint&) = default;
};

/// Names a checkpoint. Throws Error(kNotFound) if it is not there.
ParentCheckpoint identify(const std::filesystem::path& checkpoint);
/// What a checkpoint's description says that it has gone on from; nothing for the first of a run.
std::optional<ParentCheckpoint> parent_of(const std::filesystem::path& checkpoint);

/// A run goes on from the checkpoint `from`, and owns `folder` (its checkpoints) from that step on:
/// what the branch that it leaves has written there moves to `aside`/checkpoints, and nothing is
/// deleted.
///
///   before:  step-4 step-8 step-12
///   after:   step-4                  aside/checkpoints: step-8 step-12       (from = step-4)
///
/// The old branch's metrics are copied beside them, whole, so that `aside` is a run's folder like
/// any other. What is going on lies in folder/branch.json: when a crash ends this in the middle,
/// find_checkpoint() gives `from`, and the next call goes on where this one ended.
struct BranchMove {
  std::filesystem::path folder;
  std::filesystem::path from;
  std::filesystem::path aside;  ///< Where to; must not exist, unless a crash has left it.
  /// The old branch has metrics that would be lost; `keep_metrics` copies them before anything
  /// moves. Called again after a crash.
  bool metrics_differ = false;
  std::function<void(const std::filesystem::path& aside)> keep_metrics = {};
  /// When all has moved: the metrics are those that lead to `from`.
  std::function<void()> take_over_metrics = {};
  /// After each thing done to the disk; tests end the process there.
  std::function<void(std::string_view point)> progress = {};
};
/// Gives where things went; nothing when nothing had to move. Throws Error(kUnavailable) when the
/// disk refuses.
std::optional<std::filesystem::path> begin_branch(const BranchMove& move);

/// The checkpoint that a folder's branch stands at, as branch.json and the folder have it; nothing
/// if there is none.
std::optional<std::filesystem::path> head_of_branch(const std::filesystem::path& folder);

}  // namespace weft::apps
