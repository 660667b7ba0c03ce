#pragma once

#include "core/base/clock.h"

namespace weft::actors {

/// From here on, descendants of this process whose parents die become its children
/// (PR_SET_CHILD_SUBREAPER).
void adopt_orphans();

/// Kills and reaps every child that is left. For the end of a process that has adopted orphans,
/// when its launchers have none any more.
void end_orphans(Nanoseconds within);

}  // namespace weft::actors
