#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/supervision/exit_report.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Run that `weft run` asks an agent to start on another host, detached from the caller.
struct RunSubmission {
  std::string name;
  std::string host;  ///< Host whose agent starts it.
  std::string text;  ///< Resolved run file.
  std::string out;   ///< Absolute path of the results.
  std::string app;   ///< Absolute path of the app's executable.
  std::string app_sha256;
  static constexpr auto fields =
      weft::fields(&RunSubmission::name, &RunSubmission::host, &RunSubmission::text,
                   &RunSubmission::out, &RunSubmission::app, &RunSubmission::app_sha256);
};

/// Run that an agent has started.
struct DetachedRun {
  std::string host;
  std::uint64_t launch = 0;  ///< Launch number; grows on each host.
  std::int64_t pid = 0;      ///< Process id of its `weft run`.
  std::string log_file;
  static constexpr auto fields = weft::fields(&DetachedRun::host, &DetachedRun::launch,
                                              &DetachedRun::pid, &DetachedRun::log_file);
};

/// End of the `weft run` of a detached run.
struct DetachedRunExit {
  std::string host;
  std::uint64_t launch = 0;
  ExitReport evidence;
  static constexpr auto fields =
      weft::fields(&DetachedRunExit::host, &DetachedRunExit::launch, &DetachedRunExit::evidence);
};

}  // namespace weft::actors
