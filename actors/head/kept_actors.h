#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/call/task.h"
#include "actors/head/head_config.h"
#include "actors/head/owner_table.h"
#include "actors/head/spawn_description.h"
#include "actors/head/state_store.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Record of the actors whose lifetime is that of the cluster, for their owner: the keeper, a part
/// of the head's process. Survives the head. Owned by the head; its thread only.
class KeptActorsTable final {
 public:
  /// `start_keeper`: starts the keeper, unless that was done; does not block. May be empty.
  KeptActorsTable(Context& context, const OwnerTable& owners, StateStore& store,
                  std::function<void()> start_keeper)
      : context_(context), owners_(owners), store_(store), start_keeper_(std::move(start_keeper)) {}
  KeptActorsTable(const KeptActorsTable&) = delete;
  KeptActorsTable& operator=(const KeptActorsTable&) = delete;

  /// Starts the keeper if the saved state has kept actors.
  void resume();
  /// Returns the process of the keeper, and starts it if there is none. Throws Error(kUnavailable)
  /// if it does not come.
  task<ProcessRef> keeper();
  /// Records actors. Throws Error(kFailedPrecondition) unless the keeper calls; so do the others.
  void keep(ProcessId caller, const SpawnDescription& actors);
  /// Forgets actors of that name. Ignored unless the keeper calls.
  void forget(ProcessId caller, const std::string& name);
  /// Leaves out rows that cannot be read, with a warning in the log.
  std::vector<SpawnDescription> all(ProcessId caller) const;
  /// Returns whether actors of that name, "hits" or "cluster/hits", are recorded. Any caller.
  bool contains(const std::string& name) const;
  /// Has the keeper stop actors. Returns when they have ended and are forgotten. Throws
  /// Error(kUnavailable) if no keeper answers, and the keeper's errors. Any caller.
  task<void> stop(std::string name);

 private:
  void check_keeper(ProcessId caller) const;

  Context& context_;
  const OwnerTable& owners_;
  StateStore& store_;
  const std::function<void()> start_keeper_;
};

}  // namespace weft::actors
