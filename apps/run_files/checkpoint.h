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

/// A parameter and its AdamW moments, whole: gathered from all shards, so that it fits any mesh.
struct ParameterState {
  std::string name = {};
  Shape shape = {};
  std::vector<float> values = {};
  std::vector<float> first_moment = {};
  std::vector<float> second_moment = {};

  friend bool operator==(const ParameterState&, const ParameterState&) = default;
};

/// Names and shapes of a model's parameters, in the graph's order.
using ParameterList = std::vector<TensorPlace>;

/// A checkpoint without its values. A value.
struct CheckpointHeading {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  std::string model_digest = {};
  ParameterList parameters = {};
};

/// All that training needs to go on as if it had never stopped, in memory: for models that fit
/// there. A value.
struct Checkpoint {
  std::int64_t step = 0;  ///< Steps done.
  std::uint64_t seed = 0;
  /// Hash of what must not change between the runs: model, data and seed; not the mesh, nor the
  /// number of steps.
  std::string model_digest = {};
  std::vector<ParameterState> parameters = {};

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

/// How a checkpoint takes the place of one of the same step: two names exchanged at once, where the
/// file system can do that, or by two renames.
enum class ReplaceBy : std::uint8_t { kExchange, kTwoRenames };

/// What becomes of those that are more than to be kept when another has been written.
enum class OldOnes : std::uint8_t { kRemove, kKeep };

/// The checkpoints of one run, in a folder:
///
///   step-00000100/model.safetensors      parameters
///   step-00000100/optimizer.safetensors  first_moment.NAME, second_moment.NAME
///   step-00000100/checkpoint.json        step, seed, digest, the checkpoint that it has gone on
///                                        from, hashes of both files
///   latest -> step-00000100              or a file with that name, without symbolic links
///   branch.json                          which checkpoint the run has gone on from (see
///                                        begin_branch()), if it was resumed
///
/// A checkpoint is written under another name, flushed, then renamed; `latest` and the removal of
/// old ones follow. So a crash at any point leaves the older checkpoint or the newer one, complete.
/// The driver owns it; one thread at a time.
class CheckpointStore {
 public:
  /// Called with a name after each thing done to the disk; tests end the process there.
  using Progress = std::function<void(std::string_view point)>;

  /// Keeps the newest `keep` (at least 1) checkpoints; removes what a crash left half-written.
  CheckpointStore(std::filesystem::path folder, int keep, Progress progress = {},
                  ReplaceBy replace_by = ReplaceBy::kExchange);

  /// The next checkpoint names this one as its parent; later ones the one before them.
  void follow(const std::filesystem::path& checkpoint) { parent_ = identify(checkpoint); }

  /// Returns the checkpoint's folder. Throws Error(kUnavailable) when the disk refuses, and
  /// Error(kFailedPrecondition) when a value is not finite: training has diverged. Then older
  /// checkpoints are intact, and nothing of the new one is left. `fill` hands over every element of
  /// every block once, in pieces of any size and order; what it throws is thrown.
  std::filesystem::path write(const CheckpointHeading& heading,
                              const std::function<void(const TakePiece& take)>& fill,
                              OldOnes old_ones = OldOnes::kRemove);
  std::filesystem::path write(const Checkpoint& checkpoint, OldOnes old_ones = OldOnes::kRemove);
  /// The newest complete checkpoint of at most so many steps; nothing if there is none.
  std::optional<std::filesystem::path> newest_up_to(std::int64_t step) const;

 private:
  void done(std::string_view point) const;
  void remove_old() const;

  std::filesystem::path folder_;
  int keep_;
  Progress progress_;
  ReplaceBy replace_by_;
  std::optional<ParentCheckpoint> parent_;
};

/// Makes a symbolic link; std::filesystem::create_symlink, but in tests.
using MakeLink = std::function<void(const std::string& target, const std::filesystem::path& link)>;

/// Makes `latest` in `folder` name the checkpoint `name`, for people: a link, or a file of one line
/// where the file system has no links. Throws what std::filesystem throws for other failures.
void point_latest_at(const std::filesystem::path& folder, const std::string& name,
                     const CheckpointStore::Progress& progress = {},
                     const MakeLink& make_link = {});

/// The newest complete checkpoint that a user's path means: a checkpoint, a folder of them, or a
/// run's folder. Where a run was going to leave a branch, and a crash ended that, the one that it
/// was going on from. Throws Error(kNotFound) saying what was looked for.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// The parameters' values of a checkpoint, for SafetensorsFile.
std::filesystem::path model_file(const std::filesystem::path& checkpoint);

/// A checkpoint on the disk, read piece by piece: what has been read is not kept in memory. Any
/// thread.
class StoredCheckpoint final {
 public:
  /// Throws Error(kNotFound) if there is none, Error(kDataLoss) if a file is damaged.
  explicit StoredCheckpoint(const std::filesystem::path& checkpoint);
  const CheckpointHeading& heading() const { return heading_; }
  /// Throws Error(kDataLoss) if a value is not finite.
  void read(const StatePiece& piece, std::span<float> values) const;

 private:
  const std::filesystem::path path_;
  CheckpointHeading heading_;
  const SafetensorsFile model_, optimizer_;
  std::vector<const TensorView*> first_moments_, second_moments_;  ///< By parameter.
};

/// Whole parameters as views of their values.
std::vector<TensorView> views_of(const std::vector<ParameterState>& parameters);

/// All of it in memory. Throws what StoredCheckpoint throws.
Checkpoint read_checkpoint(const std::filesystem::path& checkpoint);

}  // namespace weft::apps
