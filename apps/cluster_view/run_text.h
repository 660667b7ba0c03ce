#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "actors/head/run_messages.h"

namespace weft::apps {

/// Formats "step 350/700, loss 3.830, 29,151 tokens/s, 24.0 s left". Adds `progress_age_seconds`,
/// the age of the report, if it is old.
std::string progress_text(const actors::RunProgress& progress, double progress_age_seconds);
nlohmann::ordered_json progress_json(const actors::RunProgress& progress);

/// Finds a run by its name ("quickstart", or "run quickstart" as `weft status` prints it) or its
/// number. Among runs of one name, prefers active runs, then the newest. Null if there is none.
const actors::RunRecord* look_up_run(const std::vector<actors::RunRecord>& runs,
                                     const std::string& wanted);
/// Like look_up_run(). Throws Error(kNotFound) with the nearest name if there is none.
const actors::RunRecord& find_run(const std::vector<actors::RunRecord>& runs,
                                  const std::string& wanted);

/// Returns a table with a line per run: number, name, state, step, loss, times and the folder of
/// its results. A second line states why it ended, if known. Active runs are timed until
/// `now_unix_ms`. Paths below `folder` are printed relative to it.
std::string runs_text(const std::vector<actors::RunRecord>& runs, std::int64_t now_unix_ms,
                      const std::filesystem::path& folder);
nlohmann::ordered_json runs_json(const std::vector<actors::RunRecord>& runs);

/// Formats "2026-11-24 22:10:03", in local time.
std::string time_text(std::int64_t unix_ms);
/// Returns the first line of an event or of a run's end reason. The other lines are the end of a
/// log, which `weft logs` prints.
std::string first_line(const std::string& text);

}  // namespace weft::apps
