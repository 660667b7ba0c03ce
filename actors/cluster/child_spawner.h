#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "actors/call/task.h"
#include "actors/cluster/blocking_work.h"
#include "actors/cluster/spawner.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Spawner of a program with a Cluster, which does the work on threads.
class ChildSpawner final : public Spawner {
 public:
  /// Functions of the owner. They block.
  struct Actions {
    /// `cancelled`: set if nobody waits for the children any more.
    std::function<SpawnedChild(const ChildSpawn&, const std::stop_token& cancelled)> spawn;
    std::function<void(const ChildStop&)> stop;
    std::function<void()> end_children;
  };
  /// `work`: runs what blocks.
  ChildSpawner(Context& context, Actions actions, BlockingWork& work)
      : context_(context), actions_(std::move(actions)), work_(work) {}

  task<SpawnedChild> spawn(ChildSpawn request) override;
  task<void> stop(ChildStop request) override;
  task<void> end_children() override;
  void child_ended(ChildEnd) override {}
  /// Returns none: the actors of this process end with the Cluster.
  std::vector<ChildSpawn> children() override { return {}; }

 private:
  Context& context_;
  const Actions actions_;
  BlockingWork& work_;
  std::uint64_t last_number_ = 0;  // number of the last request
};

}  // namespace weft::actors
