#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/run_files/metrics.h"
#include "apps/run_files/run_directory.h"
#include "apps/run_files/run_summary.h"
#include "core/trace/trace_event.h"

namespace weft::apps {

// What a run leaves for people. All throw Error(kUnavailable) if the disk does not take it all.

void write_text(const std::filesystem::path& path, const std::string& text);

/// timeline.svg of a typical step, and trace.json; nothing if the traces hold no whole step.
void write_step_pictures(const std::vector<DeviceTrace>& traces, const std::string& name,
                         const std::string& subtitle, const RunDirectory& directory);

/// summary.json, and loss.svg of these steps.
void write_reports(const RunSummary& summary, const std::vector<StepMetrics>& steps,
                   const RunDirectory& directory);

}  // namespace weft::apps
