#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "apps/run_files/run_directory.h"
#include "apps/train/resume.h"
#include "core/base/error.h"
#include "mesh/runtime/training_engine.h"

namespace weft::apps {

/// File in the run's folder with the parameters of the step that has the least validation loss so
/// far. On a tie the earlier step stays. Used by the driver's thread only.
///
/// A resumed run continues with the file of the run that it resumes, also from another folder.
/// Removes a file of a step after the resumed one, since that step is run again.
class BestParameters final {
 public:
  BestParameters(const RunDirectory& directory, const ResumePoint& resumed);

  bool is_improved_by(std::optional<double> validation_loss) const;
  /// Writes the engine's current state; no other gather() may run. Returns the error if the disk
  /// refuses the file, and keeps the previous file then. Throws the engine's errors.
  std::optional<Error> write(std::int64_t step, double validation_loss,
                             mesh::TrainingEngine& engine);

  std::int64_t step() const { return step_; }  ///< 0 if there is no file.
  const std::filesystem::path& path() const { return path_; }

 private:
  /// Loads step and loss from `file`. Returns false if the file is missing, damaged, or of a step
  /// after `steps_done`.
  bool adopt(const std::filesystem::path& file, std::int64_t steps_done);

  const std::filesystem::path path_;
  std::int64_t step_ = 0;
  double loss_ = 0;
};

}  // namespace weft::apps
