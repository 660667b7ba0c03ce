#pragma once

#include "actors/launch/app_main.h"
#include "actors/launch/cluster.h"

namespace weft::apps {

// The roles of `app: select`; see AppMain.

int check_select(const actors::AppRun& run);
/// Partitions, bytes per process, disk and passes over it; starts nothing.
int plan_select(const actors::AppRun& run);
int drive_select(actors::Cluster& cluster, const actors::AppRun& run);

}  // namespace weft::apps
