#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/supervision/exit_evidence.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// A run that somebody leaves to the cluster: what `weft run` needs to start it on another host.
struct RunSubmission {
  std::string name;
  std::string host;  ///< whose agent starts it
  std::string text;  ///< resolved run file
  std::string out;   ///< absolute
  std::string app;   ///< the app's executable, absolute
  std::string app_sha256;
  static constexpr auto fields =
      weft::fields(&RunSubmission::name, &RunSubmission::host, &RunSubmission::text,
                   &RunSubmission::out, &RunSubmission::app, &RunSubmission::app_sha256);
};

/// A run that an agent has started.
struct DetachedRun {
  std::string host;
  std::uint64_t launch = 0;  ///< grows with each run of its host
  std::int64_t pid = 0;      ///< of the `weft run` there
  std::string log_file;
  static constexpr auto fields = weft::fields(&DetachedRun::host, &DetachedRun::launch,
                                              &DetachedRun::pid, &DetachedRun::log_file);
};

/// Its `weft run` has ended.
struct DetachedEnd {
  std::string host;
  std::uint64_t launch = 0;
  ExitEvidence evidence;
  static constexpr auto fields =
      weft::fields(&DetachedEnd::host, &DetachedEnd::launch, &DetachedEnd::evidence);
};

}  // namespace weft::actors
