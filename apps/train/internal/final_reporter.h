#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/train/best_parameters.h"
#include "apps/train/internal/loop_state.h"

namespace weft::apps {

/// Maker of the app's final report on the trained parameters, which it reads from a file. Failures
/// of the report are noted on the screen and do not fail the run. Used by the driver's thread only.
class FinalReporter final {
 public:
  /// Borrows `loop`.
  explicit FinalReporter(LoopState& loop) : loop_(loop) {}
  FinalReporter(const FinalReporter&) = delete;
  FinalReporter& operator=(const FinalReporter&) = delete;
  /// Removes the file of write_parameters().
  ~FinalReporter();

  /// Writes the engine's parameters to a temporary file, for a run without checkpoints. Returns its
  /// path; empty if the disk refuses it. Throws the engine's errors.
  std::filesystem::path write_parameters();
  /// Makes the report of the parameters in `file`, and writes it to the run's folder and the
  /// summary. `best` may be nullopt. Call after the devices are released.
  void make_report(const std::filesystem::path& file, const std::optional<BestParameters>& best);

 private:
  void note_failure(const std::string& why);

  LoopState& loop_;
  std::filesystem::path temporary_;
};

}  // namespace weft::apps
