#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/cluster.h"
#include "actors/launch/cluster_config.h"
#include "actors/supervision/restart_limit.h"
#include "apps/selection/selection_run.h"
#include "core/base/clock.h"

namespace weft::apps {

/// A worker for each device of a cluster's hosts, spares apart. A driver's; one thread.
class ClusterWorkers final : public SelectionWorkers {
 public:
  struct Options {
    std::vector<std::string> hosts;
    std::uint32_t workers = 1;
    actors::RecoveryConfig recovery = {};
    /// This driver was started again: the workers of the one before it go on.
    bool takes_over = false;
    /// Told of each death that has been mended.
    std::function<void(const std::string&)> recovered = {};
  };
  /// Starts and connects them.
  ClusterWorkers(actors::Cluster& cluster, Options options);

  actors::MeshRef<SelectionWorker> all() override { return mesh_->ref(); }
  void recover(const Error& why) override;
  /// Their processes have ended when it returns.
  void end() { mesh_.reset(); }

 private:
  void connect();
  /// Ends what the others wait for; the ranks that do not answer.
  std::set<std::uint32_t> cancel(const std::string& why);
  /// Until none is missing.
  void replace_the_dead(const std::string& cause);

  actors::Cluster& cluster_;
  const Options options_;
  actors::OnHosts where_;
  SteadyClock clock_;
  actors::RestartLimit restarts_;
  actors::MeshKey key_;
  std::optional<actors::ActorMesh<SelectionWorker>> mesh_;
  std::uint64_t epoch_ = 0;
};

}  // namespace weft::apps
