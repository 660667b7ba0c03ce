#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "actors/head/run_messages.h"

namespace weft::apps {

/// "step 350/700, loss 3.830, 29,151 tokens/s, 24.0 s left"; told so long ago.
std::string progress_text(const actors::RunProgress& progress, double told_seconds);
nlohmann::ordered_json progress_json(const actors::RunProgress& progress);

/// The run that somebody means: by its name ("quickstart", or "run quickstart" as `weft status`
/// prints it), the newest that has not ended, else the newest; or by its number. Throws
/// Error(kNotFound) with the nearest name.
const actors::RunRecord& find_run(const std::vector<actors::RunRecord>& runs,
                                  const std::string& wanted);

/// A table with a line per run: its number, name, state, step, loss, times and the folder of its
/// results. A second line gives the cause of its end, if there is one. `now_unix_ms`: for runs
/// that have not ended. `folder`: paths below it are printed relative to it.
std::string runs_text(const std::vector<actors::RunRecord>& runs, std::int64_t now_unix_ms,
                      const std::filesystem::path& folder);
nlohmann::ordered_json runs_json(const std::vector<actors::RunRecord>& runs);

/// "2026-11-24 22:10:03", in local time.
std::string time_text(std::int64_t unix_ms);
/// The first line of an event or of the cause of a run's end. The others are the end of a log,
/// which `weft logs` prints.
std::string first_line(const std::string& text);

}  // namespace weft::apps
