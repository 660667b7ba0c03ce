#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/run_files/branch.h"
#include "apps/run_files/safetensors.h"
#include "core/device/optimizer.h"
#include "core/tensor/shape.h"

namespace weft::apps {

/// Parameter and its AdamW moments, gathered from all shards, so that any mesh can restore it.
struct ParameterState {
  std::string name = {};
  Shape shape = {};
  std::vector<float> values = {};
  std::vector<float> first_moment = {};
  std::vector<float> second_moment = {};

  friend bool operator==(const ParameterState&, const ParameterState&) = default;
};

/// Names and shapes of a model's parameters, in the graph's order.
using ParameterList = std::vector<TensorDeclaration>;

/// Checkpoint without its values.
struct CheckpointMetadata {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  std::string model_digest = {};
  ParameterList parameters = {};
};

/// Complete state from which training resumes as if it had not stopped. Held in memory, for small
/// models.
struct Checkpoint {
  std::int64_t step = 0;  ///< Number of steps done.
  std::uint64_t seed = 0;
  /// Hash of model, data and seed, which must not change between runs. The mesh and the number of
  /// steps may change.
  std::string model_digest = {};
  std::vector<ParameterState> parameters = {};

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

/// Method of replacing a checkpoint of the same step: exchange both names atomically, if the file
/// system can, or rename twice.
enum class ReplaceMethod : std::uint8_t { kExchange, kTwoRenames };

/// Treatment of checkpoints beyond the number to keep after a write.
enum class OldCheckpoints : std::uint8_t { kRemove, kKeep };

/// Store of a run's checkpoints in a folder:
///
///   step-00000100/model.safetensors      parameters
///   step-00000100/optimizer.safetensors  first_moment.NAME, second_moment.NAME
///   step-00000100/checkpoint.json        step, seed, digest, parent, hashes of both files
///   latest -> step-00000100              a file with that name if there are no symbolic links
///   branch.json                          checkpoint from which the run resumed, if it did; see
///                                        begin_branch()
///
/// Writes a checkpoint under another name, flushes and renames it, then updates `latest` and
/// removes old checkpoints. A crash at any point leaves the older or the newer checkpoint complete.
/// Owned by the driver; used by one thread at a time.
class CheckpointStore {
 public:
  /// Called with a name after each change on disk. Tests end the process there.
  using Progress = std::function<void(std::string_view point)>;

  /// Keeps the newest `keep` (at least 1) checkpoints. Removes partial checkpoints of a crashed
  /// process.
  CheckpointStore(std::filesystem::path folder, int keep, Progress progress = {},
                  ReplaceMethod replace_by = ReplaceMethod::kExchange);

  /// Sets the parent of the next checkpoint. Each later one has the previous one as its parent.
  void set_parent(const std::filesystem::path& checkpoint) {
    parent_ = checkpoint_identity(checkpoint);
  }

  /// Writes a checkpoint and returns its folder. `fill` passes every element of every block once,
  /// in pieces of any size and order; its exceptions are rethrown. Throws Error(kUnavailable) if
  /// the disk refuses, and Error(kFailedPrecondition) if a value is not finite: training has
  /// diverged. Older checkpoints are intact then.
  std::filesystem::path write(const CheckpointMetadata& heading,
                              const std::function<void(const ReadStateSlice& take)>& fill,
                              OldCheckpoints old_ones = OldCheckpoints::kRemove);
  std::filesystem::path write(const Checkpoint& checkpoint,
                              OldCheckpoints old_ones = OldCheckpoints::kRemove);
  /// Returns the newest complete checkpoint of at most `step` steps; nullopt if there is none.
  std::optional<std::filesystem::path> newest_up_to(std::int64_t step) const;

 private:
  void done(std::string_view point) const;
  void remove_old() const;

  std::filesystem::path folder_;
  int keep_;
  Progress progress_;
  ReplaceMethod replace_by_;
  std::optional<ParentCheckpoint> parent_;
};

/// Function that makes a symbolic link. Replaces std::filesystem::create_symlink in tests.
using MakeLink = std::function<void(const std::string& target, const std::filesystem::path& link)>;

/// Points `latest` in `folder` at the checkpoint `name`, for users: by a symbolic link or, on file
/// systems without links, a file of one line. Throws std::filesystem errors.
void point_latest_at(const std::filesystem::path& folder, const std::string& name,
                     const CheckpointStore::Progress& progress = {},
                     const MakeLink& make_link = {});

/// Finds the newest complete checkpoint at a user's path: a checkpoint, a folder of checkpoints, or
/// a run's folder. If a crash interrupted begin_branch(), returns the checkpoint that it was to
/// branch from. Throws Error(kNotFound) that says what was expected.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// Returns the path of a checkpoint's parameter values, for SafetensorsFile.
std::filesystem::path model_file(const std::filesystem::path& checkpoint);

/// Checkpoint on disk, read piece by piece without keeping the pieces in memory. Usable from any
/// thread.
class StoredCheckpoint final {
 public:
  /// Throws Error(kNotFound) if the checkpoint does not exist, Error(kDataLoss) if a file is
  /// damaged.
  explicit StoredCheckpoint(const std::filesystem::path& checkpoint);
  const CheckpointMetadata& heading() const { return heading_; }
  /// Copies a piece. Throws Error(kDataLoss) if a value is not finite.
  void read(const StateSlice& piece, std::span<float> values) const;

 private:
  const std::filesystem::path path_;
  CheckpointMetadata heading_;
  const SafetensorsFile model_, optimizer_;
  std::vector<const TensorView*> first_moments_, second_moments_;  ///< One per parameter.
};

/// Returns views of the values of parameters in memory.
std::vector<TensorView> views_of(const std::vector<ParameterState>& parameters);

/// Reads a whole checkpoint into memory. Throws the errors of StoredCheckpoint.
Checkpoint read_checkpoint(const std::filesystem::path& checkpoint);

}  // namespace weft::apps
