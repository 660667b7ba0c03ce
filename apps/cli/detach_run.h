#pragma once

#include "actors/launch/cluster_config.h"
#include "apps/cli/commands.h"

namespace weft::apps {

/// Leaves a run, whose file the app has checked, to the agent of its first host, waits until its
/// driver is in the cluster, and says how to see it. `resolved`: see ConfigDocument::resolved().
/// Returns the exit status: 1 where the run has ended before that.
int detach_run(const FileOptions& options, const actors::RunHeader& header,
               const std::string& resolved);

}  // namespace weft::apps
