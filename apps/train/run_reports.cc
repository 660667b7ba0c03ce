#include "apps/train/run_reports.h"

#include <fmt/format.h>

#include "apps/run_files/loss_plot.h"
#include "apps/run_files/timeline_plot.h"
#include "core/base/durable_file.h"
#include "core/trace/chrome_trace.h"

namespace weft::apps {

void write_step_pictures(const std::vector<DeviceTrace>& traces, const std::string& name,
                         const std::string& subtitle, const RunDirectory& directory) {
  const std::int64_t shown = median_step(traces);
  if (shown == 0) return;
  write_chrome_trace(directory.trace(), traces);
  std::string title = fmt::format("{}: step {}", name, shown);
  if (!subtitle.empty()) title += ", " + subtitle;
  draw_timeline(traces, shown, title).write(directory.timeline());
}

void write_reports(const RunSummary& summary, const std::vector<StepMetrics>& steps,
                   const RunDirectory& directory) {
  write_atomically(directory.summary(), to_json(summary), 0666);
  draw_losses(steps, summary.baseline, summary.name + ": loss").write(directory.loss_plot());
}

}  // namespace weft::apps
