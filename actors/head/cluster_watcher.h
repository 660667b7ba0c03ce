#pragma once

#include <functional>
#include <string>

#include "actors/call/interface.h"
#include "actors/head/cluster_messages.h"
#include "actors/system/context.h"

namespace weft::actors {

/// The ear of a program that owns meshes: what the head tells it unasked. Hosted by actors::Cluster
/// under the name "watcher".
class ClusterWatcher final {
 public:
  struct Events {
    std::function<void(const MeshFailure&)> on_failure;      ///< on the watcher's thread
    std::function<void(const std::string& reason)> on_stop;  ///< the cluster ends, by request
    /// somebody wants this program to end, as an interruption does, or at once; what it does then
    std::function<std::string(bool now)> on_cancel;
    /// a host with a mesh of this program ends when that is let go
    std::function<void(const std::string& host, const std::string& why)> on_host_leaves;
  };
  ClusterWatcher(Context&, Events events) : events_(std::move(events)) {}

  void mesh_failed(const MeshFailure& failure) { events_.on_failure(failure); }
  void cluster_stops(const std::string& reason) { events_.on_stop(reason); }
  std::string cancel(bool now) { return events_.on_cancel(now); }
  void host_leaves(const std::string& host, const std::string& why) {
    events_.on_host_leaves(host, why);
  }

  static constexpr auto endpoints =
      interface<"weft.watcher", 1>(on<&ClusterWatcher::mesh_failed>("mesh_failed", urgent),
                                   on<&ClusterWatcher::cluster_stops>("cluster_stops", urgent),
                                   on<&ClusterWatcher::cancel>("cancel", urgent),
                                   on<&ClusterWatcher::host_leaves>("host_leaves", urgent));

 private:
  const Events events_;
};

}  // namespace weft::actors
