#pragma once

#include "actors/launch/app_main.h"

namespace weft::test {

// Scenarios of actors in shared processes. Each throws Error unless all goes as it should.
void shared_many(actors::Cluster& cluster);
void shared_killed(actors::Cluster& cluster);
void shared_one_for_all(actors::Cluster& cluster);
void shared_constructor(actors::Cluster& cluster);
void shared_singles(actors::Cluster& cluster);
void shared_stopped(actors::Cluster& cluster);
/// Waits until the test has restarted the head, when the file "restarted" exists.
void shared_and_head(actors::Cluster& cluster);

}  // namespace weft::test
