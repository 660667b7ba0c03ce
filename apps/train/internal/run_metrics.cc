#include "apps/train/internal/run_metrics.h"

#include <utility>

#include "core/base/error.h"

namespace weft::apps {

RunMetrics::RunMetrics(LoopState& loop, std::int64_t steps_done)
    : loop_(loop),
      file_(loop.environment.directory.metrics(), steps_done, loop.environment.overflow_file) {
  if (file_.write_error()) report(*file_.write_error());
}

void RunMetrics::append(const StepMetrics& metrics) {
  try_write([&] { file_.append(metrics); });
}

void RunMetrics::flush() {
  try_write([&] { file_.flush(); });
}

void RunMetrics::rollback(std::int64_t step) {
  file_.rollback(step);
  if (file_.write_error()) report(*file_.write_error());
}

template <typename Write>
void RunMetrics::try_write(const Write& write) {
  try {
    write();
  } catch (const Error& error) {
    report(error);
  }
}

void RunMetrics::report(const Error& error) {
  if (!std::exchange(error_reported_, true))
    loop_.progress.note(
        "  " + error.message() +
        "; training continues, and the lines are written when the disk accepts them");
}

}  // namespace weft::apps
