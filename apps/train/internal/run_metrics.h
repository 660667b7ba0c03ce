#pragma once

#include <cstdint>
#include <vector>

#include "apps/run_files/metrics.h"
#include "apps/train/internal/loop_state.h"

namespace weft::apps {

/// Metrics of a run's steps, in memory and in metrics.jsonl. Reports the first disk error on the
/// screen, since lost metrics should not end the run. The lines are written when the disk accepts
/// them again. Used by the driver's thread only.
class RunMetrics final {
 public:
  /// Opens the file after `steps_done` steps. Borrows `loop`. Throws as MetricsFile() does.
  RunMetrics(LoopState& loop, std::int64_t steps_done);

  void append(const StepMetrics& metrics);
  /// Flushes the file to disk. Required before a checkpoint that refers to these steps.
  void flush();
  /// Drops the lines after `step`, since those steps are repeated.
  void rollback(std::int64_t step);
  /// All steps from step 1 on.
  const std::vector<StepMetrics>& steps() const { return file_.steps(); }

 private:
  template <typename Write>
  void try_write(const Write& write);
  void report(const Error& error);

  LoopState& loop_;
  MetricsFile file_;
  bool error_reported_ = false;
};

}  // namespace weft::apps
