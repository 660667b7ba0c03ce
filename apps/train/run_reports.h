#pragma once

#include <string>
#include <vector>

#include "apps/run_files/metrics.h"
#include "apps/run_files/run_directory.h"
#include "apps/run_files/run_summary.h"
#include "core/trace/trace_event.h"

namespace weft::apps {

// Writers of a run's report files. All throw Error(kUnavailable) if the disk refuses a file.

/// Writes timeline.svg of a typical step and trace.json. Writes nothing if no step was traced.
void write_step_pictures(const std::vector<DeviceTrace>& traces, const std::string& name,
                         const std::string& subtitle, const RunDirectory& directory);

/// Writes summary.json, and loss.svg of these steps.
void write_reports(const RunSummary& summary, const std::vector<StepMetrics>& steps,
                   const RunDirectory& directory);

}  // namespace weft::apps
