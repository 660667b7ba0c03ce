#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "apps/run_files/run_directory.h"
#include "apps/train/resume.h"
#include "core/base/error.h"
#include "mesh/runtime/training_engine.h"

namespace weft::apps {

/// The parameters of the step whose validation loss is the least so far, in a file of the run's
/// folder. Of equal losses the first counts. The driver's thread only.
///
/// A resumed run goes on with the file that leads to its step, also of another folder; one of a
/// later step is removed, for that step comes again. (It was better than every step before it, so
/// the same run finds it again.)
class BestValues final {
 public:
  BestValues(const RunDirectory& directory, const Resumed& resumed);

  bool beaten_by(std::optional<double> validation_loss) const;
  /// Of the engine's state as it is now; no other gather() may run. Gives the error where the disk
  /// refuses the file, which is as before then; throws what the engine throws.
  std::optional<Error> write(std::int64_t step, double validation_loss,
                             mesh::TrainingEngine& engine);

  std::int64_t step() const { return step_; }  ///< 0: there is none.
  const std::filesystem::path& path() const { return path_; }

 private:
  /// Takes the file for the run's if it is of a step up to `steps_done`.
  bool adopt(const std::filesystem::path& file, std::int64_t steps_done);

  const std::filesystem::path path_;
  std::int64_t step_ = 0;
  double loss_ = 0;
};

}  // namespace weft::apps
