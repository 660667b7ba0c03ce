#pragma once

#include "actors/cluster/cluster.h"
#include "actors/launch/app_main.h"

namespace weft::apps {

// Roles of `app: select`: see AppMain.

int check_select(const actors::AppRun& run);
/// Prints partitions, bytes per process, disk use and passes over it. Starts no process.
int plan_select(const actors::AppRun& run);
int drive_select(actors::Cluster& cluster, const actors::AppRun& run);

}  // namespace weft::apps
