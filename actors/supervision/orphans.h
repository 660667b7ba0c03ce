#pragma once

#include "core/base/clock.h"

namespace weft::actors {

/// Makes descendants whose parents die children of this process (PR_SET_CHILD_SUBREAPER).
void become_subreaper();

/// Kills and reaps all remaining children, for `within` at most. For the end of a process that has
/// called become_subreaper(), after its launchers have no children left.
void reap_orphans(Nanoseconds within);

}  // namespace weft::actors
