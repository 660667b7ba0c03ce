#pragma once

#include "actors/launch/cluster_config.h"
#include "apps/cli/commands.h"

namespace weft::apps {

/// Submits a checked run to the agent of its first host, waits until its driver has joined the
/// cluster, and prints how to follow it. `resolved` is the text of ConfigDocument::resolved().
/// Returns the exit status: 1 if the run ended before its driver joined.
int detach_run(const FileOptions& options, const actors::RunHeader& header,
               const std::string& resolved);

}  // namespace weft::apps
